"""What every data plane does. A subclass gives the fixture `plane`: Ethernet1 and Ethernet2 are plugged in, nothing is configured."""

from __future__ import annotations

from dataclasses import replace

from pinion.lab.switch.nos.config import AccessList, Address, Config, Ethernet, Rule, Vlan, VlanInterface, factory
from pinion.lab.switch.nos.dataplane import DataPlane, Desired, Tagging, desired

PORTS = ("Ethernet1", "Ethernet2", "Ethernet3")


def _config() -> Config:
    config = factory(PORTS, "Management9")  # no such interface: what it says must not matter
    for vid in (100, 101, 102):
        config = config.with_vlan(Vlan(vid))
    config = config.with_interface(Ethernet("Ethernet1", access_vlan=101))
    config = config.with_interface(Ethernet("Ethernet2", trunk=True, allowed=frozenset({100, 101})))
    config = config.with_interface(
        VlanInterface(100, addresses=(Address("192.0.2.1/24"), Address("2001:db8:100::1/64")))
    )
    config = config.with_interface(VlanInterface(101, mtu=1400, addresses=(Address("198.51.100.1/24"),)))
    return replace(config, ip_routing=True, managements={})


_FOUR = AccessList(
    False, "four", (Rule(10, True, "192.0.2.0/24"), Rule(20, False, None), Rule(30, True, "10.0.0.9/32"))
)
_SIX = AccessList(True, "six", (Rule(5, False, "2001:db8:9::/64"), Rule(10, True, "2001:db8::/32")))


def _observed(plane: DataPlane) -> Desired:
    """What is held, but for MAC addresses that nobody chose and interfaces that nobody configures."""
    held = plane.observe()
    return replace(
        held,
        ports=tuple(port for port in held.ports if port.name in PORTS),
        svis=tuple(replace(svi, mac=None) for svi in held.svis),
        managements=(),
    )


def _asked(config: Config) -> Desired:
    """What should be held, as far as it is plugged in."""
    wanted = desired(config)
    return replace(wanted, ports=tuple(port for port in wanted.ports if port.name != "Ethernet3"))


class DataPlaneContract:
    """See the module."""

    def test_it_holds_what_it_was_told(self, plane: DataPlane) -> None:
        plane.apply(desired(_config()))
        assert _observed(plane) == _asked(_config())

    def test_twice_is_fine_and_changes_nothing(self, plane: DataPlane) -> None:
        plane.apply(desired(_config()))
        first = plane.observe()
        plane.apply(desired(_config()))
        assert plane.observe() == first

    def test_every_change_arrives(self, plane: DataPlane) -> None:
        config = _config()
        steps = [
            config.with_interface(Ethernet("Ethernet1", access_vlan=102)),
            config.with_interface(Ethernet("Ethernet1", access_vlan=101, shutdown=True)),
            config.with_interface(Ethernet("Ethernet1", access_vlan=400)),
            config.with_interface(Ethernet("Ethernet1", trunk=True, native_vlan=101)),
            config.with_interface(Ethernet("Ethernet1", access_vlan=101, l2_mtu=3000)),
            config.without_vlans([100]),
            config.without_svis([101]),
            config.with_interface(VlanInterface(101, shutdown=True, addresses=(Address("198.51.100.1/24"),))),
            config.with_interface(
                VlanInterface(100, addresses=(Address("192.0.2.9/24"), Address("203.0.113.1/25", secondary=True)))
            ),
            replace(config, ip_routing=False),
            replace(config, ipv6_routing=True),
            replace(config, vlans={}, svis={}, ip_routing=False),
            replace(config.with_access_list(_FOUR), ssh_lists={False: "four"}),
            replace(config.with_access_list(_FOUR).with_access_list(_SIX), ssh_lists={False: "four", True: "six"}),
            replace(config.with_access_list(_FOUR), ssh_lists={True: "not-there"}),
            config,
        ]
        for number, step in enumerate(steps):
            plane.apply(desired(step))
            assert _observed(plane) == _asked(step), f"step {number}"

    def test_a_chosen_mac_address_is_taken(self, plane: DataPlane) -> None:
        shared = VlanInterface(100, addresses=(Address("192.0.2.1/24", virtual=True),))
        config = replace(_config().with_interface(shared), virtual_router_mac="00:1c:73:00:00:99")
        plane.apply(desired(config))
        assert {svi.vid: svi.mac for svi in plane.observe().svis}[100] == "00:1c:73:00:00:99"

    def test_a_shut_port_has_no_link_and_carries_nothing(self, plane: DataPlane) -> None:
        plane.apply(desired(_config().with_interface(Ethernet("Ethernet1", access_vlan=101, shutdown=True))))
        held = {port.name: port for port in plane.observe().ports}
        assert not held["Ethernet1"].up
        assert held["Ethernet1"].tagging is Tagging.NONE
        assert plane.carriers()["Ethernet1"] is False
        assert "Ethernet3" not in plane.carriers()
