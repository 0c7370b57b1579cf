"""The lab's switch on Open vSwitch: isolation by pings that must and must not pass, and what kills and reboots leave of it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from lab.small_rack import SmallRack
from unit.lab.switch.dataplane_contract import DataPlaneContract

from pinion.checks.switch_logins import GREETED, KEPT_OUT, switch_login_checks
from pinion.drivers.switch.state import wanted
from pinion.lab.errors import LabError
from pinion.lab.switch.nos.dataplane import DataPlaneError
from pinion.lab.switch.nos.ovs import OvsDataPlane
from pinion.lab.switch.part import UNIT
from pinion.plan import plan
from pinion.plan.model import SwitchPlan
from pinion.site.loader import load

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

MANAGEMENT, PI_1, PI_2 = "10.77.100.10", "10.77.101.10", "10.77.101.11"
GATEWAY, OTHER_GATEWAY, SWITCH_OUT_OF_BAND = "10.77.101.1", "10.77.100.1", "10.77.99.2"


class Fabric:
    """A small rack with its switch, and the hands of the operator."""

    def __init__(self, rack: SmallRack) -> None:
        self.rack = rack
        self.plan: SwitchPlan = plan(load(rack.site)).switches[0]

    def driver(self, verb: str) -> dict[str, object]:
        """Run a verb of the driver from the management host's position; its answer."""
        script = Path(__file__).with_name("switch_operator.py")
        done = self.rack.run("exec", "--", str(self.python), str(script), str(self.rack.site), verb)
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    @property
    def python(self) -> Path:
        import sys

        return Path(sys.executable)

    def console(self, *lines: str) -> str:
        """Say *lines* to the switch's command line, from the management host's position."""
        script = Path(__file__).with_name("switch_operator.py")
        done = self.rack.run(
            "exec", "--", str(self.python), str(script), str(self.rack.site), "say", *lines, expect=None
        )
        return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"

    def can_log_in(self) -> bool:
        """Whether the switch greets whoever stands at the operator's place."""
        return "exit" not in self.console("show version")

    def tor(self, *argv: str) -> str:
        """Run a command inside the switch's machine."""
        return self.rack.machine("tor-1").run(argv).stdout

    def eventually(self, claim: Callable[[], bool], seconds: float = 40) -> bool:
        """Whether *claim* comes true in time."""
        give_up = time.monotonic() + seconds
        while not claim():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.3)
        return True


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    rack = SmallRack.make(tmp_path_factory.mktemp("switch"), "t-sw")
    try:
        rack.run("up", "--parts", "switch", timeout=800)
        yield Fabric(rack)
    finally:
        rack.run("down", "--purge", expect=None)


def test_out_of_the_box_nobody_reaches_anybody(fabric: Fabric) -> None:
    for machine, address in (
        ("mgmt-1", PI_1),
        ("pi-01", PI_2),
        ("pi-02", PI_1),
        ("pi-01", GATEWAY),
        ("mgmt-1", OTHER_GATEWAY),
    ):
        assert not fabric.rack.ping(machine, address), (machine, address)
    assert fabric.rack.reaches("mgmt-1", SWITCH_OUT_OF_BAND), "out-of-band is another network"


def test_the_plan_is_applied_over_ssh_and_saved(fabric: Fabric) -> None:
    assert fabric.driver("apply")["changes"]
    assert fabric.driver("read") == wanted(fabric.plan).model_dump(mode="json")
    assert fabric.driver("apply")["changes"] == []


def test_then_vlans_connect_and_the_switch_routes_between_them(fabric: Fabric) -> None:
    for machine, address in (
        ("pi-01", PI_2), ("pi-02", PI_1), ("pi-01", GATEWAY), ("mgmt-1", OTHER_GATEWAY), ("mgmt-1", PI_1), ("pi-02", MANAGEMENT),
        ("pi-01", OTHER_GATEWAY),
    ):  # fmt: skip
        assert fabric.rack.reaches(machine, address), (machine, address)


def test_the_fabric_never_reaches_the_out_of_band_network(fabric: Fabric) -> None:
    for address in (SWITCH_OUT_OF_BAND, "10.77.99.10"):
        assert not fabric.rack.ping("pi-01", address), address


def test_only_whom_the_flows_name_opens_ssh_to_a_gateway(fabric: Fabric) -> None:
    """The claims' own probes, before the site says who may log in, after, and when somebody takes the list away."""
    stated = fabric.rack.site.read_text()
    fabric.rack.site.write_text(f"{stated}concerns: {{firewall: {{}}}}\n")
    try:
        claims = switch_login_checks(plan(load(fabric.rack.site)))
        assert {(check.probe.host, check.expected) for check in claims} == {("mgmt-1", GREETED), ("pi-01", KEPT_OUT)}
        assert {check.probe.command.split()[-1] for check in claims} == {GATEWAY, OTHER_GATEWAY}

        def answers() -> list[str]:
            asked = [(check.probe.host, check.probe.command) for check in claims]
            return [fabric.rack.machine(name).run(["sh", "-c", text]).stdout.strip() for name, text in asked]

        expected = [check.expected for check in claims]
        assert answers() == [GREETED] * len(claims), "as on EOS, nobody is held back until it is told to"
        assert any("pinion-ssh" in change for change in fabric.driver("apply")["changes"])
        assert answers() == expected
        fabric.console("configure", "management ssh", "no ip access-group", "end")
        assert answers() == [GREETED] * len(claims)
        assert fabric.driver("diff")["changes"] == [
            "SSH to the switch over IPv4: access list added pinion-ssh",
            "start-up configuration out of date -> saved",
        ]
        fabric.driver("apply")
        assert answers() == expected
        before = fabric.driver("read")
        assert "NotConfirmedError" in fabric.driver("shut-out")
        assert fabric.eventually(lambda: fabric.can_log_in() and fabric.driver("read") == before, seconds=90)
        assert answers() == expected
    finally:
        fabric.rack.site.write_text(stated)
        fabric.driver("apply")
    assert "pinion-ssh" not in fabric.console("show running-config")


CLASSES = """\
traffic_classes:
  control: {share: 20%, dscp: 16}
  rdma: {share: 60%, dscp: 26}
  edge_http: {share: 20%, dscp: 0}
"""


def test_traffic_classes_are_kept_shown_and_repaired(fabric: Fabric) -> None:
    stated = fabric.rack.site.read_text()
    fabric.rack.site.write_text(f"{stated}{CLASSES}")
    try:
        assert "QoS profile pinion-lossy" in " ".join(fabric.driver("apply")["changes"])
        assert fabric.driver("read") == wanted(plan(load(fabric.rack.site)).switches[0]).model_dump(mode="json")
        assert "bandwidth percent 60" in fabric.console("show qos profile pinion-lossy")
        assert "service-profile pinion-lossy" in fabric.console("show running-config interfaces Ethernet1")
        assert "No" in fabric.console("show priority-flow-control")
        assert fabric.rack.reaches("pi-01", PI_2)
        by_hand = (
            "qos map dscp 46 to traffic-class 2",
            "qos profile pinion-lossy",
            "uc-tx-queue 3",
            "bandwidth percent 10",
        )
        fabric.console("configure", *by_hand, "end", "write")
        found = fabric.driver("diff")
        assert found["changes"] == ["QoS profile pinion-lossy: queue 3 share 10 % -> share 60 %"]
        assert found["left"] == ["DSCP 46 to traffic class 2"]
        fabric.driver("apply")
        assert fabric.driver("diff")["changes"] == []
        fabric.console("configure", "no qos map dscp 46", "end", "write")
    finally:
        fabric.rack.site.write_text(stated)
        fabric.driver("apply")
    assert "qos" not in fabric.console("show running-config")


def test_tcp_arrives_whole_bridged_and_routed(fabric: Fabric) -> None:
    for client, server, address in (("pi-01", "pi-02", PI_2), ("pi-01", "mgmt-1", MANAGEMENT)):
        sent = _transfer(fabric, client, server, address, octets=5_000_000)
        assert sent == 5_000_000, (client, server)


@pytest.mark.variant
def test_a_port_moved_by_hand_is_cut_off_found_and_repaired(fabric: Fabric) -> None:
    fabric.console("configure", "interface Ethernet2", "switchport access vlan 100", "end")
    assert not fabric.rack.ping("pi-01", PI_2), "two VLANs of one switch"
    assert not fabric.rack.ping("mgmt-1", PI_2)
    assert fabric.rack.reaches("mgmt-1", PI_1)
    assert fabric.driver("diff")["changes"] == [
        "port Ethernet2 (pis.pi 2): access VLAN 100 -> 101",
        "start-up configuration out of date -> saved",
    ]
    fabric.driver("apply")
    assert fabric.rack.reaches("pi-01", PI_2)


def test_a_shut_port_has_no_link_at_the_far_end(fabric: Fabric) -> None:
    fabric.console("configure", "interface Ethernet2", "shutdown", "end")
    carrier = fabric.rack.machine("pi-02").run(["cat", "/sys/class/net/eth0/carrier"], check=False)
    assert carrier.stdout.strip() == "0"
    assert not fabric.rack.ping("pi-01", PI_2)
    fabric.driver("apply")
    assert fabric.eventually(lambda: fabric.rack.ping("pi-01", PI_2))


def test_frames_on_a_trunk_carry_their_vlan_and_an_access_port_takes_no_tagged_ones(fabric: Fabric) -> None:
    fabric.console(
        "configure", "interface Ethernet2", "switchport mode trunk", "switchport trunk allowed vlan 101", "end"
    )
    try:
        assert _heard_by_pi_2(fabric, "mgmt-1", "eth1", vid=None) == [], "VLAN 100 is not on this trunk"
        assert _heard_by_pi_2(fabric, "pi-01", "eth0", vid=None) == [101]
        assert _heard_by_pi_2(fabric, "pi-01", "eth0", vid=100) == []
        assert _heard_by_pi_2(fabric, "pi-01", "eth0", vid=101) == []
    finally:
        fabric.driver("apply")


def test_the_switch_learned_where_the_hosts_are(fabric: Fabric) -> None:
    assert fabric.rack.reaches("mgmt-1", PI_1)
    mac = fabric.rack.machine("pi-01").run(["cat", "/sys/class/net/eth0/address"]).stdout.strip().replace(":", "")
    row = next(
        line for line in fabric.console("show mac address-table").splitlines() if mac[:4] in line and mac[8:] in line
    )
    assert row.split()[0] == "101"
    assert "Et1" in row


def test_a_killed_program_leaves_traffic_alone_and_comes_back_with_its_configuration(fabric: Fabric) -> None:
    before = fabric.driver("read")
    pid = int(fabric.tor("systemctl", "show", "--property=MainPID", "--value", UNIT))
    fabric.tor("systemctl", "kill", "--signal=KILL", UNIT)
    for _ in range(5):
        assert fabric.rack.ping("mgmt-1", PI_1)
    assert fabric.eventually(
        lambda: int(fabric.tor("systemctl", "show", "--property=MainPID", "--value", UNIT)) not in {0, pid}
    )
    assert fabric.eventually(lambda: "exit" not in fabric.console("show version"))
    assert fabric.driver("read") == before


def test_a_killed_data_plane_is_put_right(fabric: Fabric) -> None:
    fabric.tor("systemctl", "restart", "ovs-vswitchd.service")
    assert fabric.eventually(lambda: fabric.rack.ping("mgmt-1", PI_1) and fabric.rack.ping("pi-01", PI_2))
    assert fabric.eventually(lambda: "in step" in fabric.console("show version"))


def test_a_cable_plugged_in_later_is_used(fabric: Fabric) -> None:
    fabric.console("configure", "interface Ethernet5", "switchport access vlan 101", "no shutdown", "end")
    network = fabric.rack.machine("tor-1").in_network
    network(["ip", "link", "add", "Ethernet5", "type", "veth", "peer", "name", "far"])
    try:
        assert fabric.eventually(lambda: "Ethernet5" in fabric.tor("ovs-vsctl", "list-ports", "bridge0").split())
        network(["ip", "link", "set", "far", "up"])
        assert fabric.eventually(lambda: any("Et5" in line and " connected" in line for line in _status(fabric)))
    finally:
        network(["ip", "link", "del", "Ethernet5"])
        fabric.driver("apply")
    assert fabric.rack.reaches("pi-01", PI_2)


def test_a_change_that_cuts_off_the_switch_undoes_itself(fabric: Fabric) -> None:
    fabric.console("configure session cut", "interface Management1", "shutdown", "commit timer 00:00:15")
    assert not fabric.rack.ping("mgmt-1", SWITCH_OUT_OF_BAND)
    assert fabric.rack.ping("mgmt-1", PI_1), "the fabric goes on"
    assert fabric.eventually(lambda: fabric.rack.ping("mgmt-1", SWITCH_OUT_OF_BAND), 60)
    assert fabric.driver("apply")["changes"] == []


@pytest.mark.variant
def test_a_change_that_cuts_off_the_switch_undoes_itself_even_if_the_program_is_killed(fabric: Fabric) -> None:
    fabric.console("configure session cut", "interface Management1", "shutdown", "commit timer 00:00:15")
    fabric.tor("systemctl", "kill", "--signal=KILL", UNIT)
    assert not fabric.rack.ping("mgmt-1", SWITCH_OUT_OF_BAND)
    assert fabric.eventually(lambda: fabric.rack.ping("mgmt-1", SWITCH_OUT_OF_BAND), 60)
    assert fabric.driver("apply")["changes"] == []


def test_the_password_is_nowhere_but_in_its_file(fabric: Fabric) -> None:
    told = json.loads((fabric.rack.store.root / "endpoints.json").read_text())["switches"]["tor-1"]
    secret = Path(told["password_file"])
    assert secret.stat().st_mode & 0o777 == 0o600
    password = secret.read_text().strip()
    seen = fabric.tor("journalctl", "--no-pager") + fabric.tor(
        "cat", "/etc/pinion-switch/users.json", "/etc/pinion-switch/switch.json"
    )
    seen += fabric.rack.machine("tor-1").console.read_text(errors="replace")
    assert "login of pinion" in seen
    assert password not in seen
    assert fabric.tor("stat", "-c", "%a", "/etc/pinion-switch/users.json", "/etc/pinion-switch/host_key").split() == [
        "600",
        "600",
    ]


def test_a_power_cycle_keeps_what_was_saved_and_only_that(fabric: Fabric) -> None:
    fabric.console("configure", "vlan 999", "end")
    fabric.rack.run("down")
    fabric.rack.run("up", "--parts", "switch", timeout=800)
    assert fabric.driver("read") == wanted(fabric.plan).model_dump(mode="json")
    assert fabric.rack.reaches("mgmt-1", PI_1)


def test_undo_takes_the_fabric_away_and_leaves_the_login(fabric: Fabric) -> None:
    assert fabric.driver("undo")["left"] == ["IPv4 routing"]
    for machine, address in (("mgmt-1", PI_1), ("pi-01", PI_2), ("pi-01", GATEWAY)):
        assert not fabric.rack.ping(machine, address), (machine, address)
    assert fabric.rack.reaches("mgmt-1", SWITCH_OUT_OF_BAND)


@pytest.fixture(scope="module")
def stopped(fabric: Fabric) -> Iterator[Fabric]:
    """The switch program does not run, so that nobody else tells Open vSwitch anything."""
    fabric.tor("systemctl", "stop", UNIT)
    yield fabric
    fabric.tor("systemctl", "start", UNIT)


class TestOpenVSwitch(DataPlaneContract):
    """The contract of data planes, on the real one: in the switch's machine, with the switch program stopped."""

    @pytest.fixture
    def plane(self, stopped: Fabric) -> OvsDataPlane:
        machine = stopped.rack.machine("tor-1")

        def run(command: Sequence[str], text: str | None) -> str:
            try:
                return machine.run(command, input=text).stdout
            except LabError as error:
                raise DataPlaneError(str(error)) from error

        machine.run(["ovs-vsctl", "--if-exists", "del-br", "bridge0"])
        return OvsDataPlane(run)


# --- what the tests do ------------------------------------------------------------------------------------------------


def _status(fabric: Fabric) -> list[str]:
    return fabric.console("show interfaces status").splitlines()


_SERVE = """
import socket
server = socket.create_server(("0.0.0.0", 5999))
server.settimeout(60)
print("ready", flush=True)
connection, _ = server.accept()
total = 0
while data := connection.recv(65536):
    assert set(data) == {0x5a}
    total += len(data)
print(total)
"""
_SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5999), timeout=60) as connection:
    connection.sendall(bytes([0x5a]) * int(sys.argv[2]))
"""


def _inside(fabric: Fabric, machine: str, code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python program of this machine at the network position of *machine*."""
    namespace = fabric.rack.machine(machine).namespace
    return subprocess.Popen(
        ["ip", "netns", "exec", namespace, str(fabric.python), "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _transfer(fabric: Fabric, client: str, server: str, address: str, octets: int) -> int:
    receiving = _inside(fabric, server, _SERVE)
    try:
        assert receiving.stdout is not None
        assert receiving.stdout.readline() == "ready\n"
        assert _inside(fabric, client, _SEND, address, str(octets)).wait(90) == 0
        return int(receiving.communicate(timeout=90)[0])
    finally:
        receiving.send_signal(signal.SIGKILL)
        receiving.wait()


#: Frames of our own EtherType (IEEE 802 local experimental 1) that arrive until a line comes and a second longer: VLANs, 0 for untagged.
_HEAR = """
import select, socket, struct, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("eth0", 0))
link.setsockopt(263, 8, 1)
link.settimeout(0.2)
print("ready", flush=True)
end, found = None, []
while end is None or time.monotonic() < end:
    if end is None and select.select([sys.stdin], [], [], 0)[0]:
        end = time.monotonic() + 1.0
    try:
        frame, extra, _, _ = link.recvmsg(2048, 256)
    except TimeoutError:
        continue
    tag = 0
    for level, kind, data in extra:
        if (level, kind) == (263, 8):
            tag = struct.unpack("=IIIHHHH", data)[5] & 0xfff
    kind = frame[12:14]
    if kind == b"\\x81\\x00":
        tag, kind = struct.unpack("!H", frame[14:16])[0] & 0xfff, frame[16:18]
    if kind == b"\\x88\\xb5":
        found.append(tag)
print(*found)
"""
_SHOUT = """
import socket, struct, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[1], 0))
tag = b"\\x81\\x00" + struct.pack("!H", int(sys.argv[2])) if sys.argv[2] != "None" else b""
link.send(b"\\xff" * 6 + link.getsockname()[4] + tag + b"\\x88\\xb5" + bytes(50))
"""


def _heard_by_pi_2(fabric: Fabric, machine: str, interface: str, vid: int | None) -> list[int]:
    """The VLAN tags with which pi-02 hears a broadcast that *machine* sends, tagged with *vid*."""
    hearing = _inside(fabric, "pi-02", _HEAR)
    assert hearing.stdout is not None
    assert hearing.stdout.readline() == "ready\n"
    assert _inside(fabric, machine, _SHOUT, interface, str(vid)).wait(60) == 0
    return [int(tag) for tag in hearing.communicate("it was sent\n", timeout=60)[0].split()]
