"""Switch configuration text."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from unit.drivers.switch.plans import small_plan, switch_plans

from pinion.drivers.switch.eos_parser import parse_vids
from pinion.plan.model import PortMode, Svi, SwitchPort, vid_ranges
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config

VIRTUAL_ROUTER_MAC = "00:1c:73:00:00:99"


def _block(text: str, header: str) -> list[str]:
    """The lines below *header*."""
    lines = text.splitlines()
    start = lines.index(header) + 1
    return [line.strip() for line in lines[start : lines.index("!", start)]]


@given(st.sets(st.integers(min_value=1, max_value=4094), min_size=1))
def test_vid_ranges_can_be_read_back_and_join_runs(vids: set[int]) -> None:
    text = vid_ranges(vids)
    assert parse_vids(text) == tuple(sorted(vids))
    bounds = [tuple(map(int, part.split("-"))) for part in text.split(",")]
    assert all(left[-1] + 1 < right[0] for left, right in pairwise(bounds))


def test_no_vlan_at_all_is_said() -> None:
    assert vid_ranges([]) == "none"


def test_an_access_port_a_trunk_and_an_unused_port() -> None:
    text = eos_config(switch_state(small_plan()))
    assert _block(text, "interface Ethernet1") == ["description pis pi 1 eth0", "switchport access vlan 101"]
    assert _block(text, "interface Ethernet3") == [
        "description tor-2 Ethernet3",
        "switchport trunk allowed vlan 100-101",
        "switchport mode trunk",
    ]
    assert _block(text, "interface Ethernet4") == ["shutdown"]


def test_a_port_with_an_mtu() -> None:
    port = SwitchPort(
        name="Ethernet1", description="", enabled=True, mode=PortMode.ACCESS, access_vlan=7, mtu=9000, origin="x"
    )
    assert _block(eos_config(switch_state(small_plan(ports=(port,)))), "interface Ethernet1") == [
        "l2 mtu 9000",
        "switchport access vlan 7",
    ]


def test_a_switch_of_its_own_has_its_own_gateway_addresses() -> None:
    text = eos_config(switch_state(small_plan()))
    assert _block(text, "interface Vlan101") == ["mtu 1500", "ip address 10.77.101.1/24"]
    assert "ip routing" in text.splitlines()
    assert "virtual-router" not in text


def test_a_pair_shares_its_gateways() -> None:
    svis = (
        Svi(vid=101, address="2001:db8::1/64", virtual=True, mtu=9000),
        Svi(vid=101, address="10.0.0.1/24", virtual=True, mtu=9000),
        Svi(vid=101, address="10.0.1.1/24", virtual=True, mtu=9000),
    )
    text = eos_config(switch_state(small_plan(svis=svis, virtual_router_mac=VIRTUAL_ROUTER_MAC)))
    assert _block(text, "interface Vlan101") == [
        "mtu 9000",
        "ip address virtual 10.0.0.1/24",
        "ip address virtual 10.0.1.1/24 secondary",
        "ipv6 address virtual 2001:db8::1/64",
    ]
    lines = text.splitlines()
    assert f"ip virtual-router mac-address {VIRTUAL_ROUTER_MAC}" in lines
    assert {"ip routing", "ipv6 unicast-routing"} <= set(lines)


def test_without_gateways_nothing_is_routed() -> None:
    assert "routing" not in eos_config(switch_state(small_plan(svis=())))


@given(switch_plans())
def test_nothing_outside_the_scope_is_ever_written(plan: object) -> None:
    allowed = (
        "qos map ",
        "qos profile pinion-",
        "priority-flow-control pause watchdog ",
        "vlan ",
        "interface Ethernet",
        "interface Vlan",
        "ip routing",
        "ipv6 unicast-routing",
        "ip virtual-router mac-address ",
        "ip access-list standard pinion-ssh",
        "ipv6 access-list standard pinion-ssh",
        "management ssh",
        "!",
    )
    for line in eos_config(switch_state(plan)).splitlines():  # type: ignore[arg-type]
        assert line.startswith(("   ", *allowed)), line
        assert line == line.rstrip()


def test_who_may_open_ssh_is_said_for_both_families_and_of_management_ssh_nothing_else() -> None:
    text = eos_config(switch_state(small_plan(ssh_sources=("10.77.99.0/24", "10.77.100.10/32"))))
    assert _block(text, "ip access-list standard pinion-ssh") == [
        "10 permit 10.77.99.0/24",
        "20 permit host 10.77.100.10",
        "30 deny any",
    ]
    assert _block(text, "ipv6 access-list standard pinion-ssh") == ["10 deny any"], "else it would be open"
    assert _block(text, "management ssh") == ["ip access-group pinion-ssh in", "ipv6 access-group pinion-ssh in"]
    assert "ssh" not in eos_config(switch_state(small_plan()))
