"""A switch is proved as a whole: every difference that the driver would mend fails the claim it belongs to, and nothing foreign does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doubles.switch import MemorySwitch
from unit.drivers.switch.bench import LoopbackBench
from unit.drivers.switch.plans import PORTS, plan_with_classes
from unit.hosts.sites import LAB, plan_of_file

from pinion.checks.claims import checks
from pinion.checks.model import Finding, Outcome, SwitchProbe
from pinion.checks.probers.switches import switch_prober
from pinion.drivers.switch import SwitchState, SwitchUnreachableError, VlanState, compare
from pinion.drivers.switch.qos import ordered_maps
from pinion.lab.switch.loopback import LoopbackSwitch
from pinion.plan import Plan
from pinion.plan.model import QosMap

Edit = Callable[[SwitchState], SwitchState]


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The lab's plan with a small switch: two access ports, a trunk, an unused port, two gateways."""
    return plan_of_file(LAB).model_copy(update={"switches": (plan_with_classes(),)})


@pytest.fixture
def switch(plan: Plan) -> MemorySwitch:
    """Its switch, which holds the plan."""
    (planned,) = plan.switches
    made = MemorySwitch(planned.name, [*(port.name for port in planned.ports), "Ethernet5"])
    made.driver().apply(planned)
    return made


def proved(plan: Plan, switch: MemorySwitch | LoopbackBench) -> dict[str, Finding]:
    """All findings about the switch, by the last two words of their names (``port.Ethernet1``)."""
    wanted = [check for check in checks(plan) if isinstance(check.probe, SwitchProbe)]
    found = switch_prober(lambda _: switch.driver())(plan, wanted)
    return {finding.check.id.removeprefix("fabric.tor-1."): finding for finding in found}


def failed(findings: dict[str, Finding]) -> dict[str, str]:
    """What was found where a claim failed."""
    return {name: finding.found for name, finding in findings.items() if finding.outcome is not Outcome.PROVED}


def port(name: str, **changes: Any) -> Edit:
    """A hand that changes a port."""

    def edit(state: SwitchState) -> SwitchState:
        ports = (one.model_copy(update=changes) if one.name == name else one for one in state.ports)
        return state.model_copy(update={"ports": tuple(ports)})

    return edit


def svi(vid: int, **changes: Any) -> Edit:
    """A hand that changes a gateway."""

    def edit(state: SwitchState) -> SwitchState:
        svis = (one.model_copy(update=changes) if one.vid == vid else one for one in state.svis)
        return state.model_copy(update={"svis": tuple(svis)})

    return edit


def mapped(dscp: int, traffic_class: int) -> Edit:
    """A hand that has a DSCP mean another traffic class."""
    entry = QosMap(target="traffic-class", source=dscp, to=traffic_class)

    def edit(state: SwitchState) -> SwitchState:
        maps = ordered_maps((*state.qos.maps, entry))
        return state.model_copy(update={"qos": state.qos.model_copy(update={"maps": maps})})

    return edit


def vlan(vid: int, **changes: Any) -> Edit:
    """A hand that changes a VLAN."""

    def edit(state: SwitchState) -> SwitchState:
        vlans = (one.model_copy(update=changes) if one.vid == vid else one for one in state.vlans)
        return state.model_copy(update={"vlans": tuple(vlans)})

    return edit


def whole(**changes: Any) -> Edit:
    """A hand that changes what belongs to no port, VLAN or gateway."""
    return lambda state: state.model_copy(update=changes)


def test_a_switch_as_planned_proves_everything(plan: Plan, switch: MemorySwitch) -> None:
    found = proved(plan, switch)
    assert failed(found) == {}
    assert found["rest.configuration"].found == "as planned"
    assert len(found) == 2 + 4 + 2 + 1


@pytest.mark.parametrize(
    ("edit", "claim", "found"),
    [
        (port("Ethernet1", description="mine now"), "port.Ethernet1", "access 101; description: mine now, planned pis pi 1 eth0"),
        (port("Ethernet1", description=""), "port.Ethernet1", "access 101; description: (none), planned pis pi 1 eth0"),
        (port("Ethernet2", mtu=9000), "port.Ethernet2", "access 101; MTU: 9000, planned default"),
        (port("Ethernet3", native_vlan=101), "port.Ethernet3", "trunk 100,101; native VLAN: 101, planned 1"),
        (
            port("Ethernet2", other=("spanning-tree bpdufilter enable", "storm-control broadcast level 1")),
            "port.Ethernet2",
            "access 101; other lines: spanning-tree bpdufilter enable; storm-control broadcast level 1, planned (none)",
        ),
        (port("Ethernet1", access_vlan=100), "port.Ethernet1", "access 100; access VLAN: 100, planned 101"),
        (port("Ethernet4", description="reserved"), "port.Ethernet4", "shut; description: reserved, planned (none)"),
        (vlan(100, other=("state suspend",)), "vlan.100", "control; other lines: state suspend, planned (none)"),
        (svi(100, mtu=9000), "svi.100", "10.77.100.1/24; MTU: 9000, planned 1500"),
        (svi(100, enabled=False), "svi.100", "10.77.100.1/24; state: shut, planned up"),
        (svi(101, other=("no arp",)), "svi.101", "10.77.101.1/24; other lines: no arp, planned (none)"),
        (port("Ethernet5", enabled=True), "rest.configuration", "port Ethernet5 (not in the plan): state up -> shut"),
        (port("Ethernet1", qos_profile="by-hand"), "port.Ethernet1", "access 101; QoS profile: by-hand, planned pinion-lossy"),
        (
            mapped(26, 5),
            "rest.configuration",
            "DSCP 26 (traffic_classes.rdma): traffic class 5 -> 3",
        ),
        (whole(ip_routing=False), "rest.configuration", "routing between VLANs: IPv4 off -> on"),
        (whole(saved=False), "rest.configuration", "start-up configuration out of date -> saved"),
        (
            whole(unconfirmed="by-hand"),
            "rest.configuration",
            "configuration session by-hand waits for its confirmation -> confirmed or undone",
        ),
    ],
)  # fmt: skip
def test_a_difference_fails_its_own_claim_and_names_itself(
    plan: Plan, switch: MemorySwitch, edit: Edit, claim: str, found: str
) -> None:
    switch.edit(edit)
    findings = proved(plan, switch)
    assert failed(findings) == {claim: found}
    assert "pinion up lab" in findings[claim].check.remedy
    if "saved" not in found and "session" not in found:  # a switch in memory saves by itself, and knows no sessions
        switch.driver().apply(*plan.switches)
        assert failed(proved(plan, switch)) == {}, "what to do is true"


def test_what_is_gone_is_absent(plan: Plan, switch: MemorySwitch) -> None:
    switch.edit(lambda state: state.model_copy(update={"vlans": state.vlans[1:], "svis": state.svis[:1]}))
    assert failed(proved(plan, switch)) == {"vlan.100": "absent", "svi.101": "absent"}


def test_what_is_not_ours_is_listed_and_fails_nothing(plan: Plan, switch: MemorySwitch) -> None:
    guest = VlanState(vid=400, name="guest", other=("state suspend",))
    switch.edit(lambda state: state.model_copy(update={"vlans": (*state.vlans, guest)}))
    findings = proved(plan, switch)
    assert failed(findings) == {}
    assert findings["rest.configuration"].left == ("VLAN 400 (guest)",)
    switch.edit(mapped(46, 1))
    assert failed(proved(plan, switch)) == {}
    left = proved(plan, switch)["rest.configuration"].left
    assert left == ("VLAN 400 (guest)", "DSCP 46 to traffic class 1")
    assert [name for name, finding in findings.items() if finding.left] == ["rest.configuration"]


def test_every_difference_of_the_drivers_comparison_shows_also_when_few_claims_are_looked_at_again(
    plan: Plan, switch: MemorySwitch
) -> None:
    switch.edit(port("Ethernet1", mtu=9000))
    switch.edit(whole(ip_routing=False))
    assert len(compare(switch.state, *plan.switches).changes) == 2
    rest = [check for check in checks(plan) if check.id == "fabric.tor-1.rest.configuration"]
    (alone,) = switch_prober(lambda _: switch.driver())(plan, rest)
    assert alone.found == "routing between VLANs: IPv4 off -> on", "the port has a claim of its own"


def test_a_switch_that_does_not_answer_is_not_tried_and_says_so(plan: Plan, switch: MemorySwitch) -> None:
    switch.fail_next(SwitchUnreachableError("tor-1 (10.77.99.2:22)", "no route to host", hint="check its power"))
    findings = proved(plan, switch)
    assert {finding.outcome for finding in findings.values()} == {Outcome.NOT_RUN}
    assert "no route to host; check its power" in findings["port.Ethernet1"].found


def test_what_a_person_types_at_a_switch_is_found_over_ssh(plan: Plan, tmp_path: Path) -> None:
    with LoopbackSwitch(tmp_path / "switch", ports=PORTS) as program:
        eos = LoopbackBench(program, tmp_path)
        eos.driver().apply(*plan.switches)
        assert failed(proved(plan, eos)) == {}
        port_lines = ("interface Ethernet1", "description mine", "l2 mtu 2000", "switchport trunk native vlan 7")
        eos.console("configure", *port_lines, "vlan 400", "name guest", "end", "write")
        findings = proved(plan, eos)
        told = "description: mine, planned pis pi 1 eth0; native VLAN: 7, planned 1; MTU: 2000, planned default"
        assert failed(findings) == {"port.Ethernet1": f"access 101; {told}"}
        assert findings["rest.configuration"].left == ("VLAN 400 (guest)",)
        eos.driver().apply(*plan.switches)
        assert failed(proved(plan, eos)) == {}
