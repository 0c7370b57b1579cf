"""EOS text to typed state, by a parser that shares nothing with the template."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from unit.drivers.switch.plans import lab_plan, switch_plans

from pinion.drivers.switch.eos_parser import parse
from pinion.drivers.switch.eos_qos_parser import DEFAULTS
from pinion.drivers.switch.state import wanted
from pinion.plan.model import (
    EcnMarking,
    PauseWatchdog,
    PortState,
    QosMap,
    QosProfile,
    QosQueue,
    SshGuard,
    SviState,
    SwitchPlan,
    SwitchQos,
    SwitchState,
    VlanState,
)
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config
from pinion.site import catalog

#: What a real switch says, with much that is none of our business.
REAL = """\
! Command: show running-config
! device: tor-1 (DCS-7050SX3-48YC8, EOS-4.31.2F)
!
no aaa root
!
username admin privilege 15 role network-admin secret sha512 $6$abc
!
vlan internal order ascending range 1006 1199
!
hostname tor-1
!
vlan 100
   name control
!
vlan 101-103,200
!
vlan 300
   name storage
   state suspend
!
vrf instance MGMT
!
interface Port-Channel1
   switchport mode trunk
!
interface Ethernet1
   description pi-01 eth0
   switchport access vlan 101
!
interface Ethernet2
   mtu 9000
   no switchport
   ip address 192.0.2.1/31
!
interface Ethernet3
   shutdown
   speed forced 10gfull
   switchport trunk native vlan 100
   switchport trunk allowed vlan 100-101,200
   switchport trunk allowed vlan add 300
   switchport mode trunk
   channel-group 1 mode active
!
interface Ethernet49/1
!
interface Management1
   vrf MGMT
   ip address 10.77.99.2/24
!
interface Vlan101
   description gateway
   mtu 9000
   ip address 10.77.101.1/24
   ip address 10.78.101.1/24 secondary
   ip address 10.77.102.1/24 secondary
   ipv6 address 2001:DB8::1/64
   ip helper-address 10.0.0.1
!
interface Vlan102
   shutdown
   ip address virtual 10.77.102.1/24
!
ip virtual-router mac-address 00:1C:73:00:00:99
!
ip routing
ip routing vrf MGMT
!
ip route vrf MGMT 0.0.0.0/0 10.77.99.1
!
end
"""


@given(switch_plans())
def test_what_is_rendered_reads_back_as_what_is_wanted(plan: SwitchPlan) -> None:
    assert parse(eos_config(switch_state(plan))) == wanted(plan)


def test_the_lab_reads_back() -> None:
    plan = lab_plan()
    assert len(parse(eos_config(switch_state(plan))).ports) == 16
    assert parse(eos_config(switch_state(plan))) == wanted(plan)


def test_a_real_configuration() -> None:
    assert parse(REAL) == SwitchState(
        vlans=(
            VlanState(vid=100, name="control"),
            VlanState(vid=101),
            VlanState(vid=102),
            VlanState(vid=103),
            VlanState(vid=200),
            VlanState(vid=300, name="storage", other=("state suspend",)),
        ),
        ports=(
            PortState(name="Ethernet1", description="pi-01 eth0", access_vlan=101),
            PortState(name="Ethernet2", mode="routed", other=("mtu 9000", "ip address 192.0.2.1/31")),
            PortState(
                name="Ethernet3",
                enabled=False,
                mode="trunk",
                native_vlan=100,
                trunk_vlans=(100, 101, 200, 300),
                other=("speed forced 10gfull", "channel-group 1 mode active"),
            ),
            PortState(name="Ethernet49/1"),
        ),
        svis=(
            SviState(
                vid=101,
                description="gateway",
                mtu=9000,
                addresses=("10.77.101.1/24", "10.77.102.1/24", "10.78.101.1/24", "2001:db8::1/64"),
                other=("ip helper-address 10.0.0.1",),
            ),
            SviState(vid=102, enabled=False, virtual_addresses=("10.77.102.1/24",)),
        ),
        ip_routing=True,
        virtual_router_mac="00:1c:73:00:00:99",
    )


def test_what_it_cannot_read_is_kept_as_it_is() -> None:
    lines = (
        "switchport access vlan dynamic",
        "switchport mode dot1q-tunnel",
        "l2 mtu big",
        "switchport trunk allowed vlan x",
    )
    assert parse("\n   ".join(("interface Ethernet1", *lines))).ports[0].other == lines


def test_all_and_none_and_the_default_vlan() -> None:
    ports = parse(
        "vlan 1\n!\n"
        "interface Ethernet1\n   switchport trunk allowed vlan none\n!\n"
        "interface Ethernet2\n   switchport trunk allowed vlan 1-4094\n"
    )
    assert ports.vlans == ()
    assert [port.trunk_vlans for port in ports.ports] == [(), None]


@given(st.text(alphabet=st.sampled_from("vlan interface Ethernet123 switchport!\n   ip address-/,"), max_size=400))
def test_no_text_makes_it_fail(text: str) -> None:
    parse(text)


SSH = """\
ip access-list standard corporate
   10 permit 172.16.0.0/12
!
ip access-list standard pinion-ssh
   10 permit 10.77.99.0/24
   20 permit host 10.77.100.10
   30 deny any
!
ipv6 access-list standard pinion-ssh
   10 remark by hand
   20 deny any
   30 permit fd00::/64
   40 deny any
!
management ssh
   idle-timeout 60
   ip access-group pinion-ssh in
   ip access-group corporate vrf MGMT in
   ipv6 access-group corporate in
!
"""


def test_who_may_open_ssh_in_the_default_vrf() -> None:
    state = parse(SSH)
    assert state.ssh_ipv4 == SshGuard(asked="pinion-ssh", allowed=("10.77.99.0/24", "10.77.100.10/32"))
    assert state.ssh_ipv6 == SshGuard(
        asked="corporate", allowed=("fd00::/64",), other=("remark by hand", "deny any")
    ), "a line that we did not write is never dropped silently"
    assert parse("management ssh\n   idle-timeout 60\n").ssh_ipv4 == SshGuard()


SEGMENTS = (
    "random-detect ecn minimum-threshold 9 segments maximum-threshold 99 segments max-mark-probability 20 weight 0"
)
#: As an EOS switch shows it, with what we have no word for.
QOS = f"""\
qos profile by-hand
   qos trust cos
   shape rate 80 percent
   service-policy type qos input voice
   !
   tx-queue 3
      no priority
      bandwidth percent 30
      shape rate 40 percent
   !
   uc-tx-queue 4
      priority strict
      bandwidth percent 20
   !
   uc-tx-queue 5
      {SEGMENTS}
!
qos profile pinion-lossless
   qos trust dscp
   priority-flow-control on
   priority-flow-control pause watchdog
   priority-flow-control priority 4 no-drop
   priority-flow-control priority 3 no-drop
   !
   uc-tx-queue 3
      no priority
      bandwidth percent 60
      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100 weight 0
   !
   uc-tx-queue 6
      priority strict
!
interface Ethernet1
   qos trust dscp
   service-profile pinion-lossless
!
qos rewrite dscp
qos map cos 3 to traffic-class 4
qos map dscp 8 9 10 to traffic-class 1
qos map dscp 26 to traffic-class 3
qos map dscp 40-41 to traffic-class 3
qos map dscp 64 to traffic-class 3
qos map traffic-class 2 to tx-queue 4
priority-flow-control pause watchdog default timeout 0.2
priority-flow-control pause watchdog action drop
priority-flow-control pause watchdog override action drop
"""


def test_traffic_classes_as_a_switch_shows_them() -> None:
    state = parse(QOS)
    assert state.ports == (PortState(name="Ethernet1", qos_profile="pinion-lossless", other=("qos trust dscp",)),), (
        "a line of somebody's on a port of ours is drift"
    )
    assert state.qos == SwitchQos(
        maps=(
            *(QosMap(target="traffic-class", source=dscp, to=1) for dscp in (8, 9, 10)),
            *(QosMap(target="traffic-class", source=dscp, to=3) for dscp in (40, 41)),
            QosMap(target="tx-queue", source=2, to=4),
        ),
        profiles=(
            QosProfile(
                name="by-hand",
                trust="cos",
                queues=(
                    QosQueue(queue=3, share=30, other=("shape rate 40 percent",)),
                    QosQueue(queue=4, other=("bandwidth percent 20",)),
                    QosQueue(queue=5, other=(SEGMENTS,)),
                ),
                other=("shape rate 80 percent", "service-policy type qos input voice"),
            ),
            QosProfile(
                name="pinion-lossless",
                trust="dscp",
                pfc=True,
                watchdog=True,
                no_drop=(3, 4),
                queues=(
                    QosQueue(
                        queue=3, share=60, ecn=EcnMarking(minimum_kbytes=256, maximum_kbytes=512, probability=100)
                    ),
                ),
            ),
        ),
        watchdog=PauseWatchdog(
            timeout_ms=200, action="drop", other=("priority-flow-control pause watchdog override action drop",)
        ),
    )


def test_the_driver_and_the_catalogue_know_one_map_of_eos() -> None:
    qos = catalog.load().platforms["arista-eos"].qos
    assert qos is not None
    assert qos.traffic_classes == DEFAULTS.traffic_classes
