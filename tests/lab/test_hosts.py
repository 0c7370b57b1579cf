"""Hosts in the lab: Ansible and pyinfra do the same; checks foretell it; what is killed is finished; nobody is locked out."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lab.hosts_rack import REPOSITORY, HostsRack, Watch, kill_tree
from thoroughness import points
from unit.hosts.contract import CONTRACT

from pinion.drivers.hosts.bundle import program

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]

OTHER = {"ansible": "pyinfra", "pyinfra": "ansible"}
#: Changed by hand on a converged host: one of each kind.
DRIFT = """
dpkg --remove tcpdump >/dev/null
usermod -s /bin/sh ops
gpasswd -d ops adm >/dev/null
sysctl -qw net.core.somaxconn=77
chmod 0666 /etc/sysctl.d/80-pinion-os-tuning.conf
echo 'PermitRootLogin yes' >/etc/ssh/sshd_config.d/10-pinion.conf
"""


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostsRack]:
    """One running instance; its hosts are fresh when the first test comes to them."""
    made = HostsRack.make(tmp_path_factory.mktemp("hosts"), "t-hosts")
    try:
        made.up()
        yield made
    finally:
        made.run("down", "--purge", expect=None)


@pytest.fixture(scope="module")
def converged(rack: HostsRack) -> HostsRack:
    """The same, with every host at its planned state."""
    rack.converge("ansible")
    return rack


def subjects(answer: dict[str, dict[str, dict[str, list[dict[str, str]]]]], name: str) -> list[tuple[str, str]]:
    """Kind and subject of each change of one host."""
    return [(change["kind"], change["subject"]) for change in answer["hosts"][name]["changes"]]


def test_either_makes_the_same_host_and_the_other_finds_nothing_to_do(rack: HostsRack) -> None:
    fresh = {"ansible": "pi-01", "pyinfra": "pi-02"}
    before = rack.snapshot("pi-01")
    foretold = {by: rack.converge(by, "--check", "--limit", name, expect=1) for by, name in fresh.items()}
    assert rack.snapshot("pi-01") == before, "a check changed something"
    done = {by: rack.converge(by, "--limit", name) for by, name in fresh.items()}
    for by, name in fresh.items():
        assert done[by]["failed"] == []
        assert done[by]["hosts"] == foretold[by]["hosts"], f"{by} did what its check did not say"
        kinds = {kind for kind, _ in subjects(done[by], name)}
        assert kinds == {"package", "user", "file", "sysctl"}
    assert subjects(done["ansible"], "pi-01") == subjects(done["pyinfra"], "pi-02")

    shots = {name: rack.snapshot(name) for name in fresh.values()}
    assert len(shots["pi-01"]) > 500
    assert shots["pi-01"] != before
    assert shots["pi-01"] == shots["pi-02"]

    for by, name in fresh.items():
        assert rack.converge(OTHER[by], "--limit", name)["changed"] == 0
        assert rack.converge(by, "--check", "--limit", name)["changed"] == 0
        assert rack.snapshot(name) == shots[name]


def test_the_checks_of_the_plan_hold_and_find_what_does_not(converged: HostsRack) -> None:
    converged.checks_hold("pi-01", "mgmt-1")
    converged.on(
        "pi-01", "sysctl -qw net.core.somaxconn=77; chmod 0600 /etc/ssh/authorized_keys.d/ops; usermod -p x ops"
    )
    broken = converged.checks("pi-01", expect=1)
    failed = {line.partition(".pi-01.")[2].partition("]")[0] for line in broken.splitlines() if "FAILED" in line}
    assert failed == {
        "os_tuning.sysctl.net.core.somaxconn",
        "access.file./etc/ssh/authorized_keys.d/ops",
        "access.login.ops",
    }
    converged.on("pi-01", "usermod -p '*' ops")
    assert converged.converge("pyinfra", "--limit", "pi-01")["changed"] == 2


@pytest.mark.parametrize("by", ["ansible", pytest.param("pyinfra", marks=pytest.mark.variant)])
def test_what_was_changed_by_hand_is_shown_and_repaired(converged: HostsRack, by: str) -> None:
    shot = converged.snapshot("pi-02")
    converged.on("pi-02", DRIFT)
    done = converged.inside(
        *([sys.executable, "-m", "pinion", "converge", str(converged.site), "--by", by, "--check", "--limit", "pi-02"]),
        expect=1,
    )
    assert "PermitRootLogin yes" in done.stderr  # the diff, with the line that must go
    answer = converged.converge(by, "--limit", "pi-02")
    assert subjects(answer, "pi-02") == [
        ("user", "ops"),
        ("file", "/etc/ssh/sshd_config.d/10-pinion.conf"),
        ("package", "tcpdump"),
        ("file", "/etc/sysctl.d/80-pinion-os-tuning.conf"),
        ("sysctl", "net.core.somaxconn"),
    ]
    assert converged.snapshot("pi-02") == shot


@pytest.mark.parametrize("by", ["ansible", pytest.param("pyinfra", marks=pytest.mark.variant)])
def test_a_host_that_is_gone_has_failed_and_the_others_are_done(converged: HostsRack, by: str) -> None:
    converged.on("pi-03", "systemctl stop ssh.service ssh.socket 2>/dev/null; true")
    try:
        converged.on("pi-04", "sysctl -qw net.core.somaxconn=77")
        stopped = converged.converge(by, "--limit", "pi-0[34]", expect=1)
        assert stopped["failed"] == ["pi-03"]
        assert stopped["untouched"] == ["pi-04"]
        assert converged.on("pi-04", "sysctl -n net.core.somaxconn").strip() == "77"
        answer = converged.converge(by, "--limit", "pi-0[34]", "--at-once", expect=1)
        assert answer["failed"] == ["pi-03"]
        assert subjects(answer, "pi-04") == [("sysctl", "net.core.somaxconn")]
    finally:
        converged.on("pi-03", "systemctl start ssh.service")


@pytest.mark.parametrize("by", ["ansible", pytest.param("pyinfra", marks=pytest.mark.variant)])
def test_a_wave_whose_checks_do_not_hold_stops_the_run_and_is_taken_back(converged: HostsRack, by: str) -> None:
    """A check that no run repairs (somebody gave a user a password) fails on the canary; the other host stays as it was."""
    rack, plain = converged, converged.site.read_text()
    shots = {name: rack.snapshot(name) for name in ("pi-01", "pi-02")}
    rack.on("pi-01", "usermod -p x ops")
    rack.site.write_text(plain + "concerns: {watchdog: {}}\n")
    try:
        program = [sys.executable, "-m", "pinion", "converge", str(rack.site), "--by", by, "--limit", "pi-0[12]"]
        stopped = rack.inside(*program, expect=1)
        assert "pi-01: check host.pi-01.access.login.ops: user ops has a password 'no', found 'yes'" in stopped.stdout
        assert "1 hosts of later waves are not touched" in stopped.stdout
        assert rack.snapshot("pi-02") == shots["pi-02"]
        assert rack.snapshot("pi-01") != shots["pi-01"]
        (way_back,) = [
            line for line in stopped.stdout.splitlines() if line.startswith("the way back: pinion converge ")
        ]
        rack.converge(by, "--undo", way_back.rsplit(" ", 1)[1])
    finally:
        rack.site.write_text(plain)
        rack.on("pi-01", "usermod -p '*' ops")
    assert rack.snapshot("pi-01") == shots["pi-01"]


@pytest.mark.parametrize("by", [pytest.param("ansible", marks=pytest.mark.variant), "pyinfra"])
def test_a_concern_that_the_site_no_longer_has_is_taken_back(converged: HostsRack, by: str) -> None:
    rack, plain = converged, converged.site.read_text()
    shot = rack.snapshot("pi-04")
    rack.site.write_text(plain + "concerns: {watchdog: {}}\n")
    try:
        assert rack.converge(by, "--limit", "pi-04")["changed"] > 0
        assert rack.snapshot("pi-04") != shot
    finally:
        rack.site.write_text(plain)
    foretold = rack.converge(by, "--check", "--limit", "pi-04", expect=1)
    assert {change["concern"] for change in foretold["hosts"]["pi-04"]["changes"]} == {"watchdog"}
    assert rack.converge(by, "--limit", "pi-04")["hosts"]["pi-04"]["changes"] == foretold["hosts"]["pi-04"]["changes"]
    assert rack.snapshot("pi-04") == shot


def test_a_host_with_another_key_is_refused(converged: HostsRack) -> None:
    known = converged.store.ssh / "known_hosts"
    right = known.read_text()
    lines = {line.split(" ", 1)[0].split(",")[0]: line for line in right.splitlines()}
    wrong = lines["pi-01"].rsplit(" ", 1)[0] + " " + lines["pi-02"].rsplit(" ", 1)[1]
    known.write_text(right.replace(lines["pi-01"], wrong))
    try:
        for by in ("ansible", "pyinfra"):
            answer = converged.converge(by, "--limit", "pi-01", expect=1)
            assert answer["failed"] == ["pi-01"]
            assert "its SSH host key is not the one in" in answer["hosts"]["pi-01"]["errors"][0]
            assert "ssh-keygen -R" in answer["hosts"]["pi-01"]["errors"][0]
    finally:
        known.write_text(right)


#: Runs a request on the host and kills it, by SIGKILL, before its *n*-th effect: a file opened for writing, renamed, removed or changed, or
#: a program started. Prints how many there were when none was left to kill at.
KILLED = """
import json, os, signal, sys
sys.path.insert(0, "/run/onhost.zip")
from onhost.main import answer, this_host
number, seen = int(sys.argv[1]), 0
def hook(event, arguments):
    global seen
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if writes or event in {"os.rename", "os.remove", "os.mkdir", "os.chmod", "os.chown", "os.truncate", "subprocess.Popen"}:
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
request = json.load(open("/run/request.json"))
sys.addaudithook(hook)
answer(request, this_host())
print(seen)
"""


@pytest.mark.slow
def test_a_run_killed_before_any_of_its_effects_is_finished_by_the_next(converged: HostsRack) -> None:
    rack, name = converged, "pi-03"
    shot = rack.snapshot(name)
    concerns = list(rack.concerns(name).values())
    machine, request = rack.machine(name), {"action": "apply", "concerns": concerns}
    rack.on(name, "rm -f /run/onhost.zip")
    machine.run(["/bin/sh", "-c", "base64 -d >/run/onhost.zip"], input=program())
    machine.run(["/bin/sh", "-c", "cat >/run/request.json"], input=json.dumps(request | {"wait": 60, "who": "test"}))
    machine.run(["/bin/sh", "-c", "cat >/run/killed.py"], input=KILLED)
    # without a package: that takes longest, and its steps are dpkg's to keep whole; the killed controllers below have it
    drift = DRIFT.replace("dpkg --remove tcpdump", "true") + "userdel ops; rm -rf /etc/ssh/authorized_keys.d; true"
    rack.on(name, drift)
    effects = int(rack.on(name, "python3 /run/killed.py 0"))
    assert effects > 30

    chosen = sorted(random.Random(20250301).sample(range(1, effects + 1), 20))
    with Watch(rack, name) as watch:
        for point in chosen:
            rack.on(name, drift)
            killed = machine.run(["python3", "/run/killed.py", str(point)], check=False)
            assert killed.returncode in {-9, 137}, f"point {point}: {killed}"
            answer = rack.ask(name, "apply", *concerns)
            assert "error" not in answer, f"point {point}: {answer}"
            if answer["confirm"]:
                assert "error" not in rack.ask(name, "confirm", *concerns), f"point {point}"
            now = rack.snapshot(name)
            assert now == shot, f"point {point}: {set(now) ^ set(shot)}"
    assert watch.logins > 10
    assert watch.outages == []
    assert rack.converge("ansible", "--limit", name)["changed"] == 0


def test_a_killed_controller_is_followed_by_one_that_finishes(converged: HostsRack) -> None:
    rack, name = converged, "pi-04"
    shot = rack.snapshot(name)
    moments = random.Random(20250302)
    with Watch(rack, name) as watch:
        for number in range(points(2, 6)):
            by = ("ansible", "pyinfra")[number % 2]
            rack.on(name, DRIFT if number < 4 else DRIFT.replace("dpkg --remove tcpdump", "true"))
            run = subprocess.Popen(
                rack.converge_command(by, "--limit", name),
                env=rack.environment,
                cwd=REPOSITORY,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            time.sleep(moments.uniform(0.5, 6.0))
            kill_tree(run)
            answer = rack.converge(OTHER[by] if number % 3 else by, "--limit", name)
            assert answer["failed"] == []
            assert rack.snapshot(name) == shot, f"kill {number} of {by}"
    assert watch.logins > 5
    assert watch.outages == []


#: As KILLED, but the run stops there, and says so by a file, until the whole machine loses power.
STOPPED = KILLED.replace(
    "os.kill(os.getpid(), signal.SIGKILL)", 'os.mkdir("/run/power-goes") or os.kill(os.getpid(), signal.SIGSTOP)'
)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_power_cut_at_any_moment_leaves_a_host_that_boots_and_the_next_run_converges(converged: HostsRack) -> None:
    rack, name = converged, "pi-03"
    rack.converge("ansible", "--limit", name)
    shot = rack.snapshot(name)
    concerns = list(rack.concerns(name).values())
    machine, request = rack.machine(name), {"action": "apply", "concerns": concerns}
    drift = DRIFT.replace("dpkg --remove tcpdump", "true") + "rm -rf /etc/ssh/authorized_keys.d; true"

    def place() -> None:
        """/run is empty after a boot."""
        machine.run(["/bin/sh", "-c", "base64 -d >/run/onhost.zip"], input=program())
        machine.run(
            ["/bin/sh", "-c", "cat >/run/request.json"], input=json.dumps(request | {"wait": 60, "who": "test"})
        )
        machine.run(["/bin/sh", "-c", "cat >/run/stopped.py"], input=STOPPED)
        rack.on(name, drift)

    place()
    effects = int(rack.on(name, "python3 /run/stopped.py 0"))
    rack.converge("ansible", "--limit", name)
    for point in sorted(random.Random(20261121).sample(range(1, effects + 1), min(30, effects))):
        place()
        rack.on(
            name,
            f"setsid python3 /run/stopped.py {point} >/dev/null 2>&1 </dev/null & while [ ! -d /run/power-goes ]; do sleep 0.1; done",
        )
        rack.cut(name)
        assert rack.converge("ansible", "--limit", name)["failed"] == [], f"point {point}"
        now = rack.snapshot(name)
        assert now == shot, f"point {point}: {set(now) ^ set(shot)}"


@pytest.mark.variant
def test_a_change_that_nobody_confirmed_before_a_power_cut_is_taken_back_at_boot(converged: HostsRack) -> None:
    rack, name = converged, "pi-02"
    rack.converge("ansible", "--limit", name)
    shot = rack.snapshot(name)
    concern = rack.concerns(name)["access"]
    for file in concern["files"]:
        if file["path"].endswith("10-pinion.conf"):
            file["content"] += "AllowUsers nobody-at-all\n"
    assert rack.ask(name, "apply", concern)["confirm"]
    rack.cut(name)
    assert rack.logs_in(name)
    left = set(rack.snapshot(name)) ^ set(shot)
    assert not [line for line in left if "sshd" in line or "pinion-undo" in line], left
    assert rack.converge("ansible", "--limit", name)["failed"] == []
    assert rack.snapshot(name) == shot


def test_two_runs_at_once_wait_for_each_other(converged: HostsRack) -> None:
    rack, name = converged, "pi-04"
    shot = rack.snapshot(name)
    rack.on(name, DRIFT)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(rack.converge, by, "--limit", name) for by in ("ansible", "pyinfra", "ansible")]
        answers = [run.result() for run in runs]
    assert [answer["failed"] for answer in answers] == [[], [], []]
    assert sorted(answer["changed"] for answer in answers) == [0, 0, 5]
    assert rack.snapshot(name) == shot


def test_a_run_that_may_not_wait_names_the_one_at_work(converged: HostsRack) -> None:
    concern = converged.concerns("pi-04")["os_tuning"]
    converged.on("pi-04", "echo 'noon (process 1, somebody)' >/run/pinion-converge.lock")
    holds = converged.ssh_command("pi-04", "sudo flock --close /run/pinion-converge.lock sh -c 'echo held; cat'")
    hold = subprocess.Popen(holds, env=converged.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hold.stdin is not None
    assert hold.stdout is not None
    opened = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c /run/pinion-converge.lock; true"
    with ThreadPoolExecutor() as pool:
        try:
            assert hold.stdout.readline() == "held\n"
            refused = converged.ask("pi-04", "apply", concern, wait=0)
            assert "another run is at work on this host since noon (process 1, somebody)" in refused["error"]
            waiting = pool.submit(converged.ask, "pi-04", "apply", concern, wait=60)
            deadline = time.monotonic() + 60
            while int(converged.on("pi-04", opened)) < 2:
                assert time.monotonic() < deadline, "the run does not want the lock"
                time.sleep(0.1)
            time.sleep(1)
        finally:
            hold.stdin.close()
            hold.wait(timeout=60)
    assert waiting.result()["waited"] > 0.5


@pytest.mark.parametrize(
    "held", ["/var/lib/dpkg/lock-frontend", pytest.param("/var/lib/dpkg/lock", marks=pytest.mark.variant)]
)
def test_a_held_package_lock_is_waited_for(converged: HostsRack, held: str) -> None:
    converged.on("pi-01", "dpkg --remove tcpdump")
    hold = f"import fcntl,time; f=open('{held}','w'); fcntl.lockf(f,fcntl.LOCK_EX); print('held',flush=True); time.sleep(6)"
    holder = subprocess.Popen(
        converged.ssh_command("pi-01", f'sudo python3 -c "{hold}"'),
        env=converged.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    started = time.monotonic()
    assert subjects(converged.converge("ansible", "--limit", "pi-01"), "pi-01") == [("package", "tcpdump")]
    assert time.monotonic() - started > 4
    holder.wait(timeout=30)


def test_an_interrupted_package_run_is_finished_first(converged: HostsRack) -> None:
    # As dpkg leaves it when power goes between unpacking and configuring.
    script = """
set -e
dpkg --remove tcpdump
cd /tmp && apt-get download -q tcpdump >/dev/null && dpkg --unpack tcpdump_*.deb && rm tcpdump_*.deb
head -c 0 /dev/null >/var/lib/dpkg/updates/0000
"""
    converged.on("pi-01", script)
    assert converged.converge("pyinfra", "--limit", "pi-01")["failed"] == []
    assert converged.on("pi-01", "dpkg --audit; dpkg-query -W -f '${db:Status-Status}' tcpdump") == "installed"
    assert converged.on("pi-01", "ls /var/lib/dpkg/updates") == ""


def test_an_unwanted_package_is_removed_and_one_that_others_need_is_an_error(converged: HostsRack) -> None:
    converged.on(
        "pi-01", "apt-get install -y -q --no-install-recommends rpcbind >/dev/null 2>&1; dpkg -s rpcbind >/dev/null"
    )
    assert subjects(converged.converge("ansible", "--limit", "pi-01"), "pi-01") == [("package", "rpcbind")]
    # a package of nothing that says it needs rpcbind
    needs = """
set -e
apt-get install -y -q --no-install-recommends rpcbind >/dev/null 2>&1
mkdir -p /tmp/needy/DEBIAN
printf '%s\\n' 'Package: needy' 'Version: 1' 'Architecture: all' 'Maintainer: test' 'Depends: rpcbind' 'Description: test' \\
  >/tmp/needy/DEBIAN/control
dpkg-deb --build /tmp/needy /tmp/needy.deb >/dev/null && dpkg -i /tmp/needy.deb >/dev/null
"""
    converged.on("pi-01", needs)
    answer = converged.converge("pyinfra", "--limit", "pi-01", expect=1)
    (reason,) = answer["hosts"]["pi-01"]["errors"]
    assert "package rpcbind must go and cannot" in reason
    assert "needy depends on rpcbind" in reason
    converged.on("pi-01", "dpkg --purge needy")
    assert converged.converge("pyinfra", "--limit", "pi-01")["failed"] == []


def test_a_configuration_that_locks_us_out_is_taken_back_by_the_host_itself(converged: HostsRack) -> None:
    rack, name = converged, "pi-02"
    shot = rack.snapshot(name)
    concern = rack.concerns(name)["access"]
    for file in concern["files"]:
        if file["path"].endswith("10-pinion.conf"):
            file["content"] += "AllowUsers nobody-at-all\n"  # valid, and nobody gets in
    answer = rack.ask(name, "apply", concern)
    assert answer["confirm"]
    assert not rack.logs_in(name)
    timers = rack.on(name, "systemctl list-timers --no-legend pinion-undo-access.timer")
    assert "pinion-undo-access.service" in timers
    rack.on(name, "systemctl start pinion-undo-access.service")  # the two minutes are over
    rack.on(name, "systemctl stop pinion-undo-access.timer")
    deadline = time.monotonic() + 60
    while not rack.logs_in(name):  # the server has been told to read its files, and takes a moment
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert rack.snapshot(name) == shot
    assert rack.converge("ansible", "--limit", name)["changed"] == 0


def test_a_bad_configuration_never_reaches_the_running_server(converged: HostsRack) -> None:
    rack, name = converged, "pi-02"
    shot = rack.snapshot(name)
    concern = rack.concerns(name)["access"]
    for file in concern["files"]:
        if file["path"].endswith("10-pinion.conf"):
            file["content"] += "NoSuchKeyword yes\n"
        if file["path"].startswith("/etc/sudoers.d"):
            file["content"] = "ops ALL=(ALL NOPASSWD\n"
    answer = rack.ask(name, "apply", concern)
    assert "refused by its validation, nothing was replaced" in answer["error"]
    assert rack.snapshot(name) == shot


def test_a_full_disk_is_told_and_leaves_the_old_files(converged: HostsRack) -> None:
    rack, name = converged, "pi-02"
    shot = rack.snapshot(name)
    # a small file system over the folder that os_tuning writes first, without the file and without room for it
    full = """
mount -t tmpfs -o size=16k none /etc/sysctl.d
cat /dev/zero >/etc/sysctl.d/fill 2>/dev/null; true
"""
    rack.on(name, full)
    try:
        answer = rack.converge("ansible", "--limit", name, expect=1)
        (reason,) = answer["hosts"][name]["errors"]
        assert "/etc/sysctl.d/80-pinion-os-tuning.conf: No space left on device" in reason
    finally:
        rack.on(name, "umount /etc/sysctl.d")
    assert rack.converge("ansible", "--limit", name)["failed"] == []
    assert rack.snapshot(name) == shot


def test_undo_leaves_the_host_as_it_was(converged: HostsRack) -> None:
    rack = converged
    rack.reset("pi-02")
    left = set(rack.snapshot("pi-02"))
    assert not any(
        "pinion-os-tuning" in line or "10-pinion.conf" in line.split("/")[-1:] for line in left if "sysctl.d" in line
    )
    assert not any(line.startswith("passwd ops:") for line in left)
    assert "net.core.somaxconn = 4096" in left
    assert not any("/etc/ssh/authorized_keys.d/ops" in line for line in left)
    assert rack.converge("pyinfra", "--limit", "pi-02")["changed"] > 10


@pytest.mark.slow
def test_the_real_host_keeps_the_contract(converged: HostsRack) -> None:
    """The same promises as the host in memory (tests/unit/hosts/contract.py), on Debian."""
    machine = converged.machine("mgmt-1")
    contract = (REPOSITORY / "tests/unit/hosts/contract.py").read_text()
    source = contract.replace("pinion.drivers.hosts.onhost", "onhost")
    machine.run(["/bin/sh", "-c", "base64 -d >/run/onhost.zip"], input=program())
    machine.run(["/bin/sh", "-c", "cat >/run/contract.py"], input=source)
    script = """
import sys
sys.path[:0] = ["/run/onhost.zip", "/run"]
from contract import CONTRACT
from onhost.main import this_host
for promise in CONTRACT:
    promise(this_host())
    print("kept", promise.__name__)
"""
    said = machine.run(["python3", "-"], input=script, timeout=200, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.splitlines() == [f"kept {promise.__name__}" for promise in CONTRACT]
    machine.run(["/bin/sh", "-c", "rm -rf /run/onhost.zip /run/contract.py /etc/pinion-contract /var/lib/contract"])


def test_nothing_of_ours_is_left_running(converged: HostsRack) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert not (str(converged.store.ssh) in line and "ControlMaster" in line), line
