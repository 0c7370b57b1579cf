"""What a configuration means on the wire; and the contract of data planes, with the one in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from unit.lab.switch.configs import BASE, configs
from unit.lab.switch.dataplane_contract import DataPlaneContract

from pinion.lab.switch.nos.config import AccessList, Address, Config, Ethernet, Rule, Vlan, VlanInterface
from pinion.lab.switch.nos.dataplane import Desired, MemoryDataPlane, PortPlane, SshRule, SviPlane, Tagging, desired

VLANS = BASE.with_vlan(Vlan(100)).with_vlan(Vlan(101))


def _port(config: Config, **fields: object) -> PortPlane:
    port = replace(Ethernet("Ethernet1"), **fields)  # type: ignore[arg-type]
    return desired(config.with_interface(port)).ports[0]


@pytest.mark.parametrize(
    ("fields", "tagging", "tag", "trunks"),
    [
        ({}, Tagging.ACCESS, 1, ()),
        ({"access_vlan": 101}, Tagging.ACCESS, 101, ()),
        ({"access_vlan": 400}, Tagging.NONE, None, ()),
        ({"access_vlan": 101, "shutdown": True}, Tagging.NONE, None, ()),
        ({"trunk": True}, Tagging.NATIVE, 1, (100, 101)),
        ({"trunk": True, "allowed": frozenset({100, 101})}, Tagging.TRUNK, None, (100, 101)),
        ({"trunk": True, "allowed": frozenset({100, 101}), "native_vlan": 100}, Tagging.NATIVE, 100, (101,)),
        ({"trunk": True, "allowed": frozenset({100, 101}), "native_vlan": 400}, Tagging.TRUNK, None, (100, 101)),
        ({"trunk": True, "allowed": frozenset({100}), "native_vlan": 100}, Tagging.ACCESS, 100, ()),
        ({"trunk": True, "allowed": frozenset({400})}, Tagging.NONE, None, ()),
        ({"trunk": True, "allowed": frozenset()}, Tagging.NONE, None, ()),
    ],
)
def test_how_a_port_is_tagged(
    fields: dict[str, object], tagging: Tagging, tag: int | None, trunks: tuple[int, ...]
) -> None:
    port = _port(VLANS, **fields)
    assert (port.tagging, port.tag, port.trunks) == (tagging, tag, trunks)


@given(configs())
def test_no_port_ever_carries_a_vlan_that_does_not_exist(config: Config) -> None:
    for port in desired(config).ports:
        carried = {*port.trunks, *(() if port.tag is None else (port.tag,))}
        assert carried <= {1, *config.vlans}
        assert (not carried) == (port.tagging is Tagging.NONE)
        assert port.tagging is not Tagging.TRUNK or port.trunks, "an empty list of trunks would mean every VLAN"
        if config.ethernets[port.name].shutdown:
            assert not port.up
            assert not carried


def test_who_may_open_ssh_is_who_the_asked_list_names_and_nobody_else() -> None:
    four = AccessList(False, "four", (Rule(10, True, "192.0.2.0/24"), Rule(20, False, "10.0.0.0/8")))
    config = BASE.with_access_list(four)
    assert desired(config).ssh_rules == (), "nobody asks the list"
    asked = replace(config, ssh_lists={False: "four", True: "not-there"})
    assert desired(asked).ssh_rules == (
        SshRule(False, True, "192.0.2.0/24"),
        SshRule(False, False, "10.0.0.0/8"),
        SshRule(False, False, None),
    )


def test_a_gateway_needs_its_vlan() -> None:
    svi = VlanInterface(101, addresses=(Address("10.0.0.1/24"),))
    assert desired(BASE.with_interface(svi)).svis == (SviPlane(101, up=False, mtu=1500, addresses=("10.0.0.1/24",)),)
    assert desired(VLANS.with_interface(svi)).svis[0].up
    assert not desired(VLANS.with_interface(replace(svi, shutdown=True))).svis[0].up


def test_a_shared_gateway_has_the_shared_address() -> None:
    svi = VlanInterface(101, addresses=(Address("10.0.0.1/24", virtual=True),))
    config = replace(VLANS.with_interface(svi), virtual_router_mac="00:1c:73:00:00:99")
    assert desired(config).svis[0].mac == "00:1c:73:00:00:99"


class TestMemoryDataPlane(DataPlaneContract):
    """The contract, in memory."""

    @pytest.fixture
    def plane(self) -> MemoryDataPlane:
        return MemoryDataPlane({"Ethernet1", "Ethernet2"})


def test_observe_leaves_out_what_is_not_plugged_in() -> None:
    plane = MemoryDataPlane({"Ethernet1"})
    plane.apply(desired(VLANS))
    assert [port.name for port in plane.observe().ports] == ["Ethernet1"]
    assert plane.observe() != Desired()
