"""Machines and network of a lab: up, isolated, again without a change, and down without a trace."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.small_rack import MACHINES, SmallRack, root_links, traces

from pinion.lab import namespaces

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")]


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRack]:
    """One running instance for the tests that do not take it down."""
    made = SmallRack.make(tmp_path_factory.mktemp("rack"), "t-one")
    try:
        made.up()
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def test_every_machine_of_the_plan_runs_and_answers(rack: SmallRack) -> None:
    shown = json.loads(rack.run("status", "--json").stdout)
    states = {piece["name"]: piece["state"] for piece in shown["pieces"]}
    assert states == dict.fromkeys((*MACHINES, "uplink"), "up")


def test_a_second_up_changes_nothing(rack: SmallRack) -> None:
    before = rack.pids()
    report = rack.up()
    assert report["changes"] == 0
    assert report["machines"] == dict.fromkeys(MACHINES, "unchanged")
    assert rack.pids() == before


def test_systemd_is_content_in_every_machine(rack: SmallRack) -> None:
    for name in MACHINES:
        deadline = time.monotonic() + 60
        while (
            state := rack.machine(name).run(["systemctl", "is-system-running"], check=False).stdout.strip()
        ) == "starting":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert state == "running", rack.machine(name).run(["systemctl", "--failed"], check=False).stdout


def test_machines_do_not_share_a_cgroup(rack: SmallRack) -> None:
    # started in one group, each systemd would find the other's services in its own
    groups = set()
    for name in MACHINES:
        leader = rack.machine(name).leader
        groups |= set(Path(f"/proc/{leader}/cgroup").read_text().splitlines()[-1:])
        services = rack.machine(name).run(["systemctl", "status", "systemd-journald", "--no-pager"]).stdout
        assert services.count("/usr/lib/systemd/systemd-journald") == 1
    assert len(groups) == len(MACHINES)


def test_the_machine_that_all_wait_for_gets_the_most_of_the_processor(rack: SmallRack) -> None:
    def weight(name: str) -> int:
        groups = json.loads((rack.machine(name).folder / "cgroups.json").read_text())["folders"]
        found = [
            path for group in groups for path in Path(group).glob("cpu.*") if path.name in {"cpu.shares", "cpu.weight"}
        ]
        return int(found[0].read_text())

    assert weight("mgmt-1") == 4 * weight("pi-01")


def test_identity_comes_from_the_plan(rack: SmallRack) -> None:
    pi = rack.machine("pi-01")
    assert pi.run(["hostname"]).stdout == "pi-01\n"
    links = json.loads(pi.run(["ip", "-json", "address", "show", "eth0"]).stdout)
    assert [entry["local"] for entry in links[0]["addr_info"] if entry["family"] == "inet"] == ["10.77.101.10"]
    assert links[0]["mtu"] == 1500
    assert pi.run(["getent", "hosts", "pi-02"]).stdout.split()[0] == "10.77.101.11"
    ids = {rack.machine(name).run(["cat", "/etc/machine-id"]).stdout for name in MACHINES}
    assert len(ids) == len(MACHINES)


def test_ssh_with_strict_checking(rack: SmallRack) -> None:
    done = rack.run("ssh", "pi-02", "--", "hostname && sudo -n id -u")
    assert done.stdout.splitlines() == ["pi-02", "0"]


def test_the_operator_stands_where_the_management_host_stands(rack: SmallRack) -> None:
    shown = rack.run("exec", "--", "sh", "-c", "ip -brief -4 address; cat $PINION_ENDPOINTS; getent hosts tor-1; pwd")
    assert "10.77.99.10/24" in shown.stdout
    assert f'"instance": "{rack.instance}"' in shown.stdout
    assert "10.77.99.2" in shown.stdout
    # this machine's own files and folder
    assert shown.stdout.splitlines()[-1] == str(Path.cwd())
    rack.run("exec", "--", "ping", "-c1", "-W2", "10.77.99.2")
    assert rack.run("exec", "--", "sh", "-c", "exit 7", expect=7).stdout == ""
    rack.run("exec", "--", "/no/such/program", expect=2)


def test_no_packet_can_leave_the_machine(rack: SmallRack) -> None:
    links = json.loads(rack.run("exec", "--", "ip", "-json", "link").stdout)
    assert {link["ifname"] for link in links} == {"lo", "eth0", "eth1"}
    # a virtual link into another of our namespaces is all there is
    assert all(link["ifname"] == "lo" or "link_netnsid" in link for link in links)
    route = rack.run("exec", "--", "ip", "route", "get", "192.0.2.1", expect=None)
    assert route.returncode != 0 or "via 10.77.100.1" in route.stdout


def test_the_switch_decides_who_reaches_whom(rack: SmallRack) -> None:
    switch = rack.machine("tor-1")
    assert not rack.ping("pi-01", "10.77.101.11"), "factory state: ports do not switch"
    switch.run(
        ["ovs-vsctl", "--may-exist", "add-br", "fabric", "--", "set", "bridge", "fabric", "datapath_type=netdev"]
    )
    try:
        for port in ("Ethernet1", "Ethernet2"):
            switch.run(["ovs-vsctl", "add-port", "fabric", port, "tag=101"])
            switch.run(["ip", "link", "set", port, "up"])
        switch.run(
            [
                "ovs-vsctl",
                "add-port",
                "fabric",
                "Vlan101",
                "tag=101",
                "--",
                "set",
                "interface",
                "Vlan101",
                "type=internal",
            ]
        )
        switch.run(["ip", "address", "add", "10.77.101.1/24", "dev", "Vlan101"])
        switch.run(["ip", "link", "set", "Vlan101", "up"])
        assert rack.reaches("pi-01", "10.77.101.11"), "one VLAN"
        assert rack.reaches("pi-01", "10.77.101.1"), "the gateway, an internal port of the switch"
        # TCP too: checksums are right on the way through the switch
        banner = rack.machine("pi-01").run(
            ["timeout", "30", "bash", "-c", "exec 3<>/dev/tcp/10.77.101.11/22; head -c 4 <&3"]
        )
        assert banner.stdout == "SSH-"
        switch.run(["ovs-vsctl", "set", "port", "Ethernet2", "tag=102"])
        assert not rack.ping("pi-01", "10.77.101.11"), "two VLANs"
    finally:
        switch.run(["ovs-vsctl", "del-br", "fabric"])


def test_packages_come_from_this_machines_mirror_and_nothing_else_does(rack: SmallRack) -> None:
    host = rack.machine("mgmt-1")
    host.run(["sh", "-c", "apt-get -q update && cd /tmp && apt-get -q download tree"], timeout=120)
    config = json.loads((rack.store.uplink / "config.json").read_text())
    mirror = next(iter(config["proxy"]["mirrors"]))
    code = "curl -s -o /dev/null -w %{http_code} -x http://10.77.100.10:3142 "
    assert host.run(["sh", "-c", f"{code} http://{mirror}/dists/trixie/InRelease"]).stdout == "200"
    assert host.run(["sh", "-c", f"{code} http://{mirror.partition('/')[0]}/"]).stdout == "403"
    assert host.run(["sh", "-c", f"{code} http://169.254.169.254/"]).stdout == "403"


def test_state_is_private(rack: SmallRack) -> None:
    assert rack.store.root.stat().st_mode & 0o777 == 0o700
    for path in [*rack.store.ssh.rglob("*"), *rack.store.secrets.rglob("*"), rack.store.endpoints]:
        mode = path.stat().st_mode & 0o777
        assert path.suffix == ".pub" or mode in {0o600, 0o700}, f"{path}: {mode:o}"


def test_logs(rack: SmallRack) -> None:
    assert "Reached target" in rack.run("logs", "pi-01", "--lines", "400").stdout
    assert "ssh" in rack.run("logs", "pi-01", "--unit", "ssh").stdout
    assert json.loads(rack.run("logs", "pi-01", "--console", "--json").stdout)["machine"] == "pi-01"
    assert "there are mgmt-1" in rack.run("logs", "pi-09", expect=2).stderr


def test_two_instances_of_one_site_do_not_see_each_other(rack: SmallRack, tmp_path: Path) -> None:
    other = SmallRack.make(tmp_path, "t-two")
    links = root_links()
    try:
        other.up()
        assert root_links() == links
        here, there = rack.store.namespace("mgmt-1"), other.store.namespace("mgmt-1")
        assert namespaces.path_of(here).stat().st_ino != namespaces.path_of(there).stat().st_ino
        with namespaces.inside(here):
            listening = socket.create_server(("10.77.99.10", 7777))
        with listening:
            greeter = threading.Thread(target=lambda: listening.accept()[0].sendall(b"first"))
            greeter.start()
            # the same address, asked for in the other lab, is the other lab's machine, where nobody listens
            with pytest.raises(ConnectionRefusedError):
                namespaces.connect(other.store.namespace("tor-1"), "10.77.99.10", 7777, 3)
            with namespaces.connect(rack.store.namespace("tor-1"), "10.77.99.10", 7777, 3) as answer:
                assert answer.recv(5) == b"first"
            greeter.join()
        other.down("--purge")
        assert traces([other]) == []
        # the first one never noticed
        assert rack.up()["changes"] == 0
    finally:
        other.run("down", "--purge", expect=None)


def test_a_dead_machine_is_booted_again_and_no_other(rack: SmallRack) -> None:
    before = rack.pids()
    os.kill(before["pi-02"], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while "pi-02" in rack.pids():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert rack.run("status", expect=1).stdout.count("down") == 1
    report = rack.up()
    assert report["machines"] == {**dict.fromkeys(MACHINES, "unchanged"), "pi-02": "booted"}
    after = rack.pids()
    assert {name: pid for name, pid in after.items() if name != "pi-02"} == {
        name: pid for name, pid in before.items() if name != "pi-02"
    }
    assert rack.run("status").returncode == 0


def test_a_machine_that_does_not_answer_is_booted_anew(rack: SmallRack) -> None:
    rack.machine("pi-01").run(["systemctl", "stop", "ssh.service", "ssh.socket"], check=False)
    report = rack.up()
    assert report["machines"] == {**dict.fromkeys(MACHINES, "unchanged"), "pi-01": "booted"}


def test_a_lost_uplink_comes_back(rack: SmallRack) -> None:
    record = json.loads((rack.store.uplink / "process.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    assert rack.up()["changes"] == 1
    assert rack.machine("mgmt-1").run(["apt-get", "-q", "update"], timeout=120).returncode == 0


def test_a_changed_plan_is_brought_to_running_machines(rack: SmallRack) -> None:
    try:
        before = rack.pids()
        text = rack.site.read_text()
        rack.site.write_text(text.replace("numbers: 1-2", "numbers: 1-3"))
        report = rack.up()
        assert report["machines"] == {**dict.fromkeys(MACHINES, "unchanged"), "pi-03": "booted"}
        assert {name: pid for name, pid in rack.pids().items() if name != "pi-03"} == before
        assert rack.machine("pi-01").run(["getent", "hosts", "pi-03"]).stdout.split()[0] == "10.77.101.12"
    finally:
        rack.site.write_text(text)
    rack.up()
    assert rack.pids() == before
    assert not namespaces.exists(rack.store.namespace("pi-03"))


def test_up_says_what_this_machine_lacks(rack: SmallRack, tmp_path: Path) -> None:
    environment = {**rack.environment, "PATH": str(tmp_path)}
    done = subprocess.run(
        rack.command("up", "--parts", "none"), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "apt-get install" in done.stderr
    assert "systemd-container" in done.stderr
