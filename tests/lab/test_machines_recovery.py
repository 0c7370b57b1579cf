"""Kills, crashes and reboots: whatever happens, `up` goes on and `down` leaves nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab.small_rack import MACHINES, SmallRack, root_links, traces
from thoroughness import points

from pinion.lab import cgroups, namespaces
from pinion.lab.mounts import unmount_tree
from pinion.lab.processes import Recorded

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")]


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[SmallRack]:
    made = SmallRack.make(tmp_path, "t-rec")
    try:
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def nspawns(rack: SmallRack) -> dict[str, int]:
    """How many nspawn processes each machine has, by its root folder on the command line."""
    counts: dict[str, int] = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        for word in words if Path(words[0]).name == "systemd-nspawn" else ():
            if word.startswith(f"--directory={rack.store.machines}/"):
                name = Path(word).parent.name
                counts[name] = counts.get(name, 0) + 1
    return counts


def test_down_leaves_nothing_and_twice_is_fine(rack: SmallRack) -> None:
    links = root_links()
    rack.up()
    assert traces([rack]), "the probe must see a running lab"
    report = rack.down()
    assert sorted(map(str, report["machines"])) == list(MACHINES)  # type: ignore[call-overload]
    assert traces([rack]) == []
    assert root_links() == links
    again = rack.down()
    assert (again["machines"], again["namespaces"], again["uplink"]) == ([], 0, False)
    assert "down already" in rack.run("down").stdout
    assert rack.run("status", expect=1).stdout.count("down") == len(MACHINES) + 1


def test_down_of_what_never_was(rack: SmallRack) -> None:
    assert rack.down()["machines"] == []
    assert not rack.store.exists()


def test_disks_survive_down_and_purge_ends_them(rack: SmallRack) -> None:
    rack.up()
    key = rack.store.ssh.joinpath("id_ed25519").read_text()
    rack.machine("pi-01").run(["sh", "-c", "echo kept >/var/lib/note; sync"])
    rack.down()
    rack.up()
    assert rack.machine("pi-01").run(["cat", "/var/lib/note"]).stdout == "kept\n"
    assert rack.store.ssh.joinpath("id_ed25519").read_text() == key
    rack.down("--purge")
    assert not rack.store.exists()
    assert [entry.name for entry in rack.store.root.parent.iterdir()] == []
    rack.up()
    assert rack.machine("pi-01").run(["cat", "/var/lib/note"], check=False).returncode != 0
    assert rack.store.ssh.joinpath("id_ed25519").read_text() != key


def test_killed_at_any_moment_up_goes_on(rack: SmallRack) -> None:
    """kill -9 of `up` at seeded moments from its first to its last second, each on a lab that is down, half up or up."""
    chance = random.Random(2024)
    rack.up()
    rack.down()
    for round_number in range(points(2, 8)):
        if round_number % 3 == 0:
            rack.down()
        running = subprocess.Popen(
            rack.command("up", "--parts", "none"),
            env=rack.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0.3, 4.0))
        running.send_signal(signal.SIGKILL)
        running.wait()
        report = rack.up()
        assert set(report["machines"]) == set(MACHINES)  # type: ignore[call-overload]
        assert nspawns(rack) == dict.fromkeys(MACHINES, 1)
        assert rack.up()["changes"] == 0
    rack.run("status")
    rack.down()
    assert traces([rack]) == []


def test_killed_at_any_moment_down_goes_on(rack: SmallRack) -> None:
    chance = random.Random(7)
    for _ in range(points(1, 3)):
        rack.up()
        running = subprocess.Popen(
            rack.command("down"),
            env=rack.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0.3, 2.5))
        running.send_signal(signal.SIGKILL)
        running.wait()
        rack.down()
        assert traces([rack]) == []


def test_down_ends_a_running_up(rack: SmallRack) -> None:
    with subprocess.Popen(
        rack.command("up", "--parts", "none"),
        env=rack.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        wait_until(rack.store.busy.exists)
        # held still, so that it cannot be done before `down` comes to it
        running.send_signal(signal.SIGSTOP)
        with subprocess.Popen(rack.command("down"), env=rack.environment, stdout=subprocess.DEVNULL) as ending:
            wait_until(lambda: terminating(running.pid))
            running.send_signal(signal.SIGCONT)
            _, said = running.communicate(timeout=30)
            assert ending.wait(timeout=60) == 0
    assert running.returncode == 128 + signal.SIGTERM
    assert "stopped; run it again" in said
    assert traces([rack]) == []


def test_down_ends_an_up_that_hangs(rack: SmallRack) -> None:
    with subprocess.Popen(
        rack.command("up", "--parts", "none"),
        env=rack.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        wait_until(rack.store.busy.exists)
        running.send_signal(signal.SIGSTOP)
        rack.down()
        assert running.wait(timeout=60) == -signal.SIGKILL
    assert traces([rack]) == []


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def terminating(pid: int) -> bool:
    """Whether SIGTERM waits for process *pid* (proc(5): ShdPnd)."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_two_ups_at_once_do_not_collide(rack: SmallRack) -> None:
    both = [
        subprocess.Popen(
            rack.command("up", "--parts", "none", "--json"), env=rack.environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    reports = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert nspawns(rack) == dict.fromkeys(MACHINES, 1)
    done = sorted(report["machines"]["pi-01"] for report in reports)
    assert done == ["booted", "unchanged"]


def crash(rack: SmallRack) -> None:
    """What a reboot leaves: no process, no mount, no namespace, but every file, with records of another boot."""
    for record in [*rack.store.root.rglob("process.json")]:
        process = Recorded.read(record)
        assert process is not None
        process.signal(signal.SIGKILL)
        assert process.wait(10)
    # a machine's own processes outlive a killed nspawn; a reboot ends them too, and their cgroups
    for record in rack.store.root.rglob("cgroups.json"):
        cgroups.remove([Path(folder) for folder in json.loads(record.read_text())["folders"]])
    unmount_tree(rack.store.root)
    for name in (*MACHINES, "oob"):
        path = namespaces.path_of(rack.store.namespace(name))
        namespaces.delete(path.name)
        # on a machine whose /run is on disk, the name outlives the namespace
        path.touch()


def test_after_a_reboot_up_recovers(rack: SmallRack) -> None:
    rack.up()
    rack.machine("pi-01").run(["sh", "-c", "echo kept >/var/lib/note; sync"])
    crash(rack)
    # the numbers in the records belong to others now
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        for record in rack.store.root.rglob("process.json"):
            value = json.loads(record.read_text())
            record.write_text(
                json.dumps({**value, "pid": bystander.pid, "boot": "11111111-2222-3333-4444-555555555555"})
            )
        assert rack.run("status", expect=1).stdout.count("down") == len(MACHINES) + 1
        rack.run("exec", "--", "true", expect=2)
        report = rack.up()
        assert report["machines"] == dict.fromkeys(MACHINES, "booted")
        assert rack.machine("pi-01").run(["cat", "/var/lib/note"]).stdout == "kept\n"
        rack.run("status")
        assert bystander.poll() is None, "a stranger with a recorded pid was signalled"
    finally:
        bystander.kill()
        bystander.wait()


def test_after_a_reboot_down_is_fine(rack: SmallRack) -> None:
    rack.up()
    crash(rack)
    rack.down()
    assert traces([rack]) == []


@pytest.mark.variant
def test_a_namespace_lost_under_a_running_machine(rack: SmallRack) -> None:
    rack.up()
    namespaces.delete(rack.store.namespace("pi-01"))
    report = rack.up()
    assert report["machines"] == {**dict.fromkeys(MACHINES, "unchanged"), "pi-01": "booted"}
    rack.run("ssh", "pi-01", "--", "true")
