"""Differences between a switch and a plan: typed, in words, as lines; what is foreign; what replacing the scope says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from unit.drivers.switch.plans import small_plan, switch_plans
from unit.drivers.switch.test_eos_parser import REAL

from pinion.drivers.switch import PortState, SviState, SwitchState, VlanState, compare, removal
from pinion.drivers.switch.diff import emptied, expected
from pinion.drivers.switch.eos_parser import parse
from pinion.drivers.switch.replacement import eos_commands
from pinion.drivers.switch.state import wanted
from pinion.plan.model import Svi, SwitchPlan, SwitchVlan
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config


def _with_port(state: SwitchState, name: str, **fields: object) -> SwitchState:
    ports = tuple(port.model_copy(update=fields) if port.name == name else port for port in state.ports)
    return state.model_copy(update={"ports": ports})


@given(switch_plans())
def test_a_switch_that_holds_its_plan_does_not_differ(plan: SwitchPlan) -> None:
    diff = compare(wanted(plan), plan)
    assert (diff.changes, diff.lines, diff.left) == ((), (), ())


@settings(max_examples=40)
@given(switch_plans(), switch_plans(), switch_plans())
def test_what_is_expected_after_a_change_does_not_differ(
    now: SwitchPlan, before: SwitchPlan, after: SwitchPlan
) -> None:
    state = wanted(now)
    reached = expected(state, after, before)
    assert compare(reached, after, before).empty
    assert compare(state, after, before).empty == (reached == state)


@settings(max_examples=40)
@given(switch_plans(), switch_plans())
def test_lines_and_changes_agree_that_there_is_something(now: SwitchPlan, after: SwitchPlan) -> None:
    diff = compare(wanted(now), after)
    assert bool(diff.lines) == bool(diff.changes)


def test_a_port_moved_by_hand_is_told_in_words_of_the_site_file() -> None:
    plan = small_plan()
    diff = compare(_with_port(wanted(plan), "Ethernet2", access_vlan=100), plan)
    assert [str(change) for change in diff.changes] == ["port Ethernet2 (pis.pi 2): access VLAN 100 -> 101"]
    assert diff.changes[0].path == ("ports", "Ethernet2", "access_vlan")
    assert diff.lines == (
        " interface Ethernet2",
        "-   switchport access vlan 100",
        "+   switchport access vlan 101",
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"description": "mine"}, "description mine -> pis pi 2 eth0"),
        ({"enabled": False}, "state shut -> up"),
        ({"mode": "routed"}, "mode routed -> access"),
        ({"native_vlan": 7}, "native VLAN 7 -> 1"),
        ({"trunk_vlans": (1, 2, 3)}, "trunk VLANs 1-3 -> all"),
        ({"mtu": 9000}, "MTU 9000 -> default"),
        ({"other": ("speed forced 10gfull",)}, "other lines speed forced 10gfull removed"),
    ],
)
def test_every_field_of_a_port_counts(fields: dict[str, object], said: str) -> None:
    plan = small_plan()
    diff = compare(_with_port(wanted(plan), "Ethernet2", **fields), plan)
    assert [str(change) for change in diff.changes] == [f"port Ethernet2 (pis.pi 2): {said}"]
    assert diff.lines


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"addresses": ("10.9.9.9/24",)}, "addresses 10.9.9.9/24 -> 10.77.101.1/24"),
        ({"virtual_addresses": ("10.9.9.9/24",)}, "shared addresses 10.9.9.9/24 -> (none)"),
        ({"mtu": 9000}, "MTU 9000 -> 1500"),
        ({"enabled": False}, "state shut -> up"),
        ({"description": "mine"}, "description mine -> (none)"),
        ({"other": ("ip helper-address 10.0.0.1",)}, "other lines ip helper-address 10.0.0.1 removed"),
    ],
)
def test_every_field_of_a_gateway_counts(fields: dict[str, object], said: str) -> None:
    plan = small_plan()
    held = wanted(plan)
    svis = tuple(svi.model_copy(update=fields) if svi.vid == 101 else svi for svi in held.svis)
    diff = compare(held.model_copy(update={"svis": svis}), plan)
    assert [str(change) for change in diff.changes] == [f"gateway of VLAN 101 (networks.edge-inference): {said}"]
    assert diff.lines


def test_a_vlan_renamed_and_one_missing() -> None:
    plan = small_plan()
    held = wanted(plan).model_copy(update={"vlans": (VlanState(vid=101, name="typo", other=("state suspend",)),)})
    assert [str(change) for change in compare(held, plan).changes] == [
        "VLAN 100 (networks.control) added control",
        "VLAN 101 (networks.edge-inference): name typo -> edge-inference",
        "VLAN 101 (networks.edge-inference): other lines state suspend removed",
    ]


def test_foreign_vlans_and_gateways_are_told_and_left() -> None:
    plan = small_plan()
    held = wanted(plan)
    foreign = held.model_copy(
        update={
            "vlans": (*held.vlans, VlanState(vid=400, name="guest"), VlanState(vid=401)),
            "svis": (*held.svis, SviState(vid=400, addresses=("192.0.2.1/24",))),
        }
    )
    diff = compare(foreign, plan)
    assert diff.empty
    assert diff.left == ("VLAN 400 (guest)", "VLAN 401", "gateway of VLAN 400")
    said = eos_commands(foreign, plan)
    assert not [line for line in said if "400" in line or "401" in line]


def test_what_only_the_former_plan_lists_goes() -> None:
    before = small_plan()
    after = small_plan(vlans=before.vlans[1:], svis=before.svis[1:])
    after = after.model_copy(
        update={"ports": (*before.ports[:2], before.ports[3].model_copy(update={"name": "Ethernet3"}), before.ports[3])}
    )
    diff = compare(wanted(before), after, before)
    said = [str(change) for change in diff.changes]
    assert "VLAN 100 (networks.control) control removed" in said
    assert "gateway of VLAN 100 (networks.control) 10.77.100.1/24 removed" in said
    assert diff.left == ()
    assert compare(wanted(before), after).left == ("VLAN 100 (control)", "gateway of VLAN 100")
    assert {"no vlan 100", "no interface Vlan100"} <= set(eos_commands(wanted(before), after, before))


def test_a_port_that_the_plan_does_not_know_is_shut() -> None:
    plan = small_plan()
    held = wanted(plan)
    held = held.model_copy(update={"ports": (*held.ports, PortState(name="Ethernet9", access_vlan=101))})
    assert [str(change) for change in compare(held, plan).changes] == [
        "port Ethernet9 (not in the plan): state up -> shut",
        "port Ethernet9 (not in the plan): access VLAN 101 -> 1",
    ]
    said = eos_commands(held, plan)
    assert said[-2:] == ["interface Ethernet9", "shutdown"]
    assert "default interface Ethernet9" in said


def test_a_port_that_the_switch_lacks_is_told() -> None:
    plan = small_plan()
    held = wanted(plan)
    diff = compare(held.model_copy(update={"ports": held.ports[:3]}), plan)
    assert "the switch does not list this port" in str(diff.changes[0])


def test_routing_is_switched_on_and_never_off() -> None:
    plan = small_plan()
    assert [str(change) for change in compare(wanted(plan).model_copy(update={"ip_routing": False}), plan).changes] == [
        "routing between VLANs: IPv4 off -> on"
    ]
    alone = small_plan(svis=())
    diff = compare(
        wanted(alone).model_copy(
            update={"ip_routing": True, "ipv6_routing": True, "virtual_router_mac": "00:1c:73:00:00:99"}
        ),
        alone,
    )
    assert diff.empty
    assert diff.left == ("IPv4 routing", "IPv6 routing", "MAC address of shared gateways 00:1c:73:00:00:99")


def test_unsaved_and_unconfirmed_are_differences() -> None:
    plan = small_plan()
    diff = compare(wanted(plan).model_copy(update={"saved": False}), plan)
    assert diff.only_unsaved
    assert [str(change) for change in diff.changes] == ["start-up configuration out of date -> saved"]
    diff = compare(wanted(plan).model_copy(update={"unconfirmed": "pinion-1-2"}), plan)
    assert not diff.empty
    assert not diff.only_unsaved
    assert "pinion-1-2" in str(diff.changes[0])


def test_undo_takes_ours_away_and_tells_what_stays() -> None:
    plan = small_plan()
    held = wanted(plan)
    held = held.model_copy(update={"vlans": (*held.vlans, VlanState(vid=400, name="guest"))})
    diff = removal(held, plan)
    reached = expected(held, emptied(plan), plan)
    assert reached.vlans == (VlanState(vid=400, name="guest"),)
    assert reached.svis == ()
    assert reached.ports == tuple(PortState(name=port.name, enabled=False) for port in plan.ports)
    assert diff.left == ("VLAN 400 (guest)", "IPv4 routing")
    assert removal(reached, plan).empty


def test_the_default_vlan_is_never_removed() -> None:
    plan = small_plan(
        vlans=(SwitchVlan(vid=1, name="default"),), svis=(Svi(vid=1, address="10.0.0.1/24", virtual=False, mtu=1500),)
    )
    commands = eos_commands(wanted(plan), emptied(plan), plan)
    assert "no vlan 1" not in commands


@settings(max_examples=40)
@given(switch_plans(), switch_plans())
def test_replacing_says_every_line_of_the_plan_and_touches_nothing_else(now: SwitchPlan, after: SwitchPlan) -> None:
    said = eos_commands(wanted(now), after, now)
    body = [line.strip() for line in eos_config(switch_state(after)).splitlines() if line.strip("! ")]
    assert [line for line in said if line in body][-1:] == body[-1:]
    assert all(line in said for line in body)
    prelude = said[: len(said) - len(body)]
    ours = ("no interface Vlan", "no vlan ", "default interface Ethernet", "management ssh", "exit")
    classes = ("no qos profile pinion-", "qos map ", "no priority-flow-control pause watchdog ")
    lists = tuple(
        f"no {word} access-{kind} pinion-ssh" for word in ("ip", "ipv6") for kind in ("list standard", "group")
    )
    assert all(line.startswith((*ours, *lists, *classes)) for line in prelude)
    assert ("management ssh" in prelude) == bool(now.ssh_sources and not after.ssh_sources)
    assert parse(eos_config(switch_state(after))) == wanted(after)


@settings(max_examples=40)
@given(switch_plans(), switch_plans())
def test_no_command_touches_users_or_the_management_interface(now: SwitchPlan, after: SwitchPlan) -> None:
    """Whoever configured the switch by hand before us, as in REAL, keeps his way to it."""
    for state in (parse(REAL), wanted(now)):
        said = [line.removeprefix("no ").removeprefix("default ") for line in eos_commands(state, after, now)]
        theirs = ("username", "aaa", "enable", "interface Management", "vrf", "hostname", "line", "ip route", "boot")
        assert [line for line in said if line.startswith(theirs)] == []
    assert ("username" in REAL, "interface Management1" in REAL) == (True, True)
