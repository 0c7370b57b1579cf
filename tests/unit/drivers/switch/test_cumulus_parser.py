"""NVUE text to typed state, by a parser that shares nothing with the template."""

from __future__ import annotations

import pytest
from unit.drivers.switch.cumulus_sites import SITES, loaded

from pinion.drivers.switch import compare
from pinion.drivers.switch.cumulus_parser import parse
from pinion.drivers.switch.nvue_tree import NotNvueError, read_tree
from pinion.drivers.switch.state import wanted
from pinion.plan.model import PortState, SviState, SwitchPlan, VlanState
from pinion.plan.switch_state import switch_state
from pinion.render.cumulus import cumulus_config

#: In the form that a switch shows: keys joined, a header, much that is none of our business.
REAL = """\
- header:
    model: SN3420
    nvue-api-version: nvue_v1
    rev-id: 1.0
    version: Cumulus Linux 5.11.0
- set:
    bridge:
      domain:
        br_default:
          vlan:
            10,20-22: {}
            '30':
              vni:
                '30': {}
    interface:
      bond1:
        bond:
          member:
            swp9: {}
        type: bond
      eth0:
        ip:
          address:
            dhcp: {}
          vrf: mgmt
        type: eth
      swp1-2,swp4:
        bridge:
          domain:
            br_default: {}
        type: swp
      swp2:
        bridge:
          domain:
            br_default:
              untagged: 10
              vlan:
                20-21: {}
        description: to the spine
        link:
          mtu: 9000
          speed: 100G
      swp3s0:
        bridge:
          domain:
            br_default:
              access: 1
        link:
          state:
            down: {}
        type: swp
      swp5:
        ip:
          address:
            192.0.2.1/31: {}
        type: swp
      vlan10:
        ip:
          address:
            10.0.10.2/24: {}
            2001:DB8::2/64: {}
          vrr:
            address:
              10.0.10.1/24: {}
            state:
              up: {}
        link:
          mtu: 9000
        type: svi
      vlan20-21:
        type: svi
    qos:
      roce:
        mode: lossless
    system:
      global:
        fabric-mac: 00:00:5E:00:01:FF
      hostname: leaf01
"""


def switches() -> list[SwitchPlan]:
    return [switch for name in SITES for switch in loaded(name)[1].switches]


@pytest.mark.parametrize("plan", switches())
def test_what_is_rendered_reads_back_as_what_is_wanted(plan: SwitchPlan) -> None:
    text = cumulus_config(switch_state(plan))
    assert parse(text) == wanted(plan)
    assert compare(parse(text), plan).empty


def test_what_a_switch_shows_without_its_defaults_reads_back_too() -> None:
    """`wanted` leaves out what is so anyway; the text of it says the same."""
    (plan,) = loaded("lab")[1].switches
    assert parse(cumulus_config(wanted(plan))) == wanted(plan)


def test_a_real_configuration() -> None:
    state = parse(REAL)
    assert state.vlans == (
        VlanState(vid=10),
        VlanState(vid=20),
        VlanState(vid=21),
        VlanState(vid=22),
        VlanState(vid=30, other=("vni 30",)),
    )
    assert state.ports == (
        PortState(name="swp1", mode="trunk"),
        PortState(
            name="swp2",
            description="to the spine",
            mode="trunk",
            native_vlan=10,
            trunk_vlans=(20, 21),
            mtu=9000,
            other=("link speed 100G",),
        ),
        PortState(name="swp3s0", enabled=False, other=("bridge domain br_default access 1",)),
        PortState(name="swp4", mode="trunk"),
        PortState(name="swp5", other=("ip address 192.0.2.1/31",)),
    )
    assert state.svis == (
        SviState(vid=10, mtu=9000, addresses=("10.0.10.2/24", "2001:db8::2/64"), virtual_addresses=("10.0.10.1/24",)),
        SviState(vid=20, mtu=9216),
        SviState(vid=21, mtu=9216),
    )
    assert (state.ip_routing, state.ipv6_routing) == (True, True)
    assert state.virtual_router_mac == "00:00:5e:00:01:ff"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bw-percent: 60", "bw-percent: 50", "queue 3 share 50 %, ECN from 150 to 1500 kB with 100 % -> share 60 %"),
        ("mode: strict", "mode: dwrr", "queue 6 share 0 % -> served first"),
        ("trust: l3", "trust: l2", "QoS profile pinion-lossless: trust cos -> dscp"),
        ("cable-length: 100", "cable-length: 10", "cable, metres 10 -> 100"),
        ("robustness: 3", "robustness: 5", "timers timeout 500 ms"),
        ("memory-percent: 50", "memory-percent: 40", "lossless packet memory: share 40 % -> 50 %"),
        ("red: disable", "red: enable", "red enable"),
        ("rx: enable", "rx: disable", "pfc rx off"),
        ("rewrite: l2", "rewrite: l3", "remark rewrite l3"),
        ("          pfc-watchdog:\n            state: enable\n", "", "qos pfc-watchdog off"),
        ("deny: {}", "permit: {}", "other lines rule 30"),
        ("source-ip: 192.168.100.0/24", "source-ip: 0.0.0.0/0", "let in 192.168.99.0/24, 0.0.0.0/0 ->"),
        ("          pinion-ssh:\n            inbound: {}\n", "", "access list added pinion-ssh"),
        ("fabric-mac: 00:00:5e:00:01:01", "fabric-mac: 00:00:5e:00:01:02", "MAC address 00:00:5e:00:01:02"),
    ],
)
def test_what_differs_is_told(old: str, new: str, said: str) -> None:
    plan = loaded("dc-rack-12")[1].switches[0]
    text = cumulus_config(switch_state(plan))
    assert old in text
    told = [str(change) for change in compare(parse(text.replace(old, new, 1)), plan).changes]
    assert any(said in line for line in told), told


def test_the_lines_of_a_difference_are_paths() -> None:
    plan = loaded("dc-rack-12")[1].switches[0]
    held = parse(cumulus_config(switch_state(plan)).replace("access: 101", "access: 100", 1))
    lines = compare(held, plan).lines
    assert lines == (
        " - set:",
        "    interface:",
        "       swp1:",
        "          bridge:",
        "             domain:",
        "                br_default:",
        "-                  access: 100",
        "+                  access: 101",
    )


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("- set:\n    a: [\n", 3, "is no YAML"),
        ("set: {}\n", 1, "is no list of `header` and `set`"),
        ("- text\n", 1, "is neither `header` nor `set`"),
        ("- unset: {}\n", 1, "says `unset`"),
        ("- set:\n    interface:\n    - swp1\n", 3, "is a list, where NVUE has none"),
    ],
)
def test_what_is_no_nvue_configuration_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotNvueError) as refused:
        parse(text)
    assert reason in str(refused.value)
    assert refused.value.line == line


def test_joined_keys_are_each_of_them() -> None:
    root = read_tree("- set:\n    interface:\n      swp1-2,swp4s0-1,bond3: {}\n      a-b: {}\n      swp9-1: {}\n").root
    assert list(root.below("interface")) == ["swp1-2,swp4s0-1,bond3", "a-b", "swp9-1"]
    root = read_tree("- set:\n    interface:\n      swp1-2,swp4s0,bond3: {}\n").root
    assert list(root.below("interface")) == ["swp1", "swp2", "swp4s0", "bond3"]


def test_an_empty_text_holds_nothing() -> None:
    assert parse("").ports == ()
    assert parse("- set:\n").ports == ()
