"""The lab that follows from a plan: machines, ports, cables, names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinion.lab.topology import Topology, derived_mac, topology
from pinion.plan import Plan, plan
from pinion.plan.model import DeviceKind
from pinion.site.loader import load

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def compiled() -> Plan:
    return plan(load(ROOT / "inventories/lab/site.yml"))


@pytest.fixture(scope="module")
def lab(compiled: Plan) -> Topology:
    return topology(compiled)


def test_every_lab_device_is_a_machine(compiled: Plan, lab: Topology) -> None:
    assert [node.name for node in lab.nodes] == [device.name for device in compiled.devices if device.lab]
    assert len(lab.nodes) == 7


def test_a_cable_joins_two_ports_once(lab: Topology) -> None:
    ends = [(cable.a.machine, cable.a.name) for cable in lab.cables] + [
        (cable.b.machine, cable.b.name) for cable in lab.cables
    ]
    assert len(ends) == len(set(ends))
    assert {frozenset((cable.a.machine, cable.b.machine)) for cable in lab.cables} == {
        frozenset(("tor-1", name)) for name in ("mgmt-1", "nv-1", "pi-01", "pi-02", "pi-03", "pi-04")
    }
    # the GPU server has one control and two RDMA links
    assert sum("nv-1" in (cable.a.machine, cable.b.machine) for cable in lab.cables) == 3


def test_out_of_band_ports_are_the_switch_and_the_management_host(lab: Topology) -> None:
    assert {(port.machine, port.name) for port in lab.out_of_band} == {("tor-1", "Management1"), ("mgmt-1", "eth0")}


def test_fabric_ports_of_a_switch_have_no_address_of_their_own(lab: Topology) -> None:
    fabric = [port for port in lab.node("tor-1").ports if not port.out_of_band]
    assert fabric
    assert all(port.addresses == () and port.mtu is None and port.gateways == () for port in fabric)


def test_one_way_out_per_machine(lab: Topology) -> None:
    for node in lab.nodes:
        gateways = [gateway for port in node.ports for gateway in port.gateways]
        assert len(gateways) <= 1, node
    assert lab.node("pi-01").port("eth0").gateways == ("10.77.101.1",)
    assert lab.node("mgmt-1").port("eth0").gateways == ()
    assert lab.node("mgmt-1").port("eth1").gateways == ("10.77.100.1",)
    assert lab.node("nv-1").port("rdma0").gateways == ()


def test_rdma_ports_carry_jumbo_frames(lab: Topology) -> None:
    assert lab.node("nv-1").port("rdma0").mtu == 9000
    assert lab.node("nv-1").port("eth0").mtu == 1500


def test_names_are_known_once_and_lead_to_the_fabric(lab: Topology) -> None:
    names = [name for name, _ in lab.hosts]
    assert len(names) == len(set(names))
    hosts = dict(lab.hosts)
    assert hosts["mgmt-1"] == "10.77.100.10"
    assert hosts["mgmt-1-eth0"] == "10.77.99.10"
    assert hosts["tor-1"] == "10.77.99.2"
    assert hosts["pi-04"] == "10.77.101.13"


def test_macs_are_local_unicast_distinct_and_fixed(lab: Topology) -> None:
    macs = [port.mac for node in lab.nodes for port in node.ports]
    assert len(macs) == len(set(macs))
    assert all(re.fullmatch(r"02(:[0-9a-f]{2}){5}", mac) for mac in macs)
    assert derived_mac("lab", "pi-01", "eth0") == lab.node("pi-01").port("eth0").mac
    assert derived_mac("lab", "pi-01", "eth0") != derived_mac("lab", "pi-02", "eth0")


def test_a_stated_mac_is_kept(compiled: Plan) -> None:
    devices = tuple(
        device.model_copy(
            update={
                "interfaces": tuple(
                    interface.model_copy(update={"mac": "D8:3A:DD:00:00:01"}) if interface.name == "eth0" else interface
                    for interface in device.interfaces
                )
            }
        )
        if device.name == "pi-01"
        else device
        for device in compiled.devices
    )
    assert (
        topology(compiled.model_copy(update={"devices": devices})).node("pi-01").port("eth0").mac == "d8:3a:dd:00:00:01"
    )


def test_devices_of_other_platforms_are_names_only(compiled: Plan) -> None:
    devices = tuple(
        device.model_copy(update={"lab": False}) if device.name == "pi-01" else device for device in compiled.devices
    )
    part = topology(compiled.model_copy(update={"devices": devices}))
    assert "pi-01" not in [node.name for node in part.nodes]
    assert dict(part.hosts)["pi-01"] == "10.77.101.10"
    # the switch port that led there has no other end, so it is not made
    assert "Ethernet1" not in [port.name for port in part.node("tor-1").ports]


def test_the_operator_works_from_the_management_host(lab: Topology) -> None:
    host = lab.management_host
    assert host is not None
    assert (host.name, host.kind) == ("mgmt-1", DeviceKind.MANAGEMENT_HOST)
