"""From a Plan to machines, ports and cables of a lab. Pure: no I/O, the same answer for the same plan.

Invariants: only devices with `lab` set become machines; a port is either cabled to another machine, or on the out-of-band bridge, or
not there; every MAC address is fixed by site, device and interface, so a machine keeps its own over every boot.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

from pinion.plan.model import DeviceKind, DevicePlan, InterfacePlan, Plan


@dataclass(frozen=True, order=True)
class Port:
    """One network interface of a machine.

    *addresses* carry their mask; *gateways* are the routers (one a family at most) that this port leads to; *mtu* is the layer-3 MTU in
    bytes, None where the machine's own software decides (fabric ports of a switch).
    """

    machine: str
    name: str
    mac: str
    mtu: int | None
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    out_of_band: bool


@dataclass(frozen=True)
class Cable:
    """A veth pair between two machines."""

    a: Port
    b: Port


@dataclass(frozen=True)
class Node:
    """One machine of the lab, with its ports in the plan's order."""

    name: str
    kind: DeviceKind
    ports: tuple[Port, ...]

    @property
    def address(self) -> str | None:
        """The address that others use for it, without mask: the first on the fabric, else the first out-of-band."""
        for out_of_band in (False, True):
            for port in self.ports:
                if port.out_of_band == out_of_band and port.addresses:
                    return port.addresses[0].partition("/")[0]
        return None

    def port(self, name: str) -> Port:
        """The port called *name*; `KeyError` when there is none."""
        for port in self.ports:
            if port.name == name:
                return port
        raise KeyError(name)


@dataclass(frozen=True)
class Topology:
    """The machines of a lab and the cables between them. *hosts* maps every known name to its address, for ``/etc/hosts``."""

    nodes: tuple[Node, ...]
    cables: tuple[Cable, ...]
    hosts: tuple[tuple[str, str], ...]

    def node(self, name: str) -> Node:
        """The machine called *name*; `KeyError` when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @property
    def out_of_band(self) -> tuple[Port, ...]:
        """The ports on the out-of-band bridge."""
        return tuple(port for node in self.nodes for port in node.ports if port.out_of_band)

    @property
    def management_host(self) -> Node | None:
        """The machine from whose network position an operator works: the first management host."""
        return next((node for node in self.nodes if node.kind is DeviceKind.MANAGEMENT_HOST), None)


def derived_mac(site: str, device: str, interface: str) -> str:
    """A locally administered unicast address (IEEE 802, second bit of the first octet) that is fixed by its arguments."""
    digest = hashlib.sha256(f"{site}/{device}/{interface}".encode()).digest()
    return ":".join(f"{octet:02x}" for octet in (0x02, *digest[:5]))


def topology(plan: Plan) -> Topology:
    """The lab that *plan* describes: every device whose platform is the lab's, and the cables between two such devices."""
    devices = {device.name: device for device in plan.devices if device.lab}
    nodes = tuple(_node(plan, device, devices) for device in devices.values())
    by_name = {node.name: node for node in nodes}
    cables = []
    for device in devices.values():
        for interface in device.interfaces:
            if interface.owns_cable and interface.cable is not None and interface.cable.device in by_name:
                far = by_name[interface.cable.device].port(interface.cable.interface)
                cables.append(Cable(by_name[device.name].port(interface.name), far))
    return Topology(nodes, tuple(cables), _hosts(plan, nodes))


def _node(plan: Plan, device: DevicePlan, devices: dict[str, DevicePlan]) -> Node:
    """One machine: its out-of-band interfaces and those with a cable to another machine."""
    ports = []
    for interface in device.interfaces:
        out_of_band = _is_out_of_band(plan, interface)
        cabled = interface.cable is not None and interface.cable.device in devices
        if not (out_of_band or cabled):
            continue
        switched = device.kind is DeviceKind.SWITCH and not out_of_band
        ports.append(
            Port(
                machine=device.name,
                name=interface.name,
                mac=(interface.mac or derived_mac(plan.site, device.name, interface.name)).lower(),
                mtu=None if switched else interface.mtu,
                addresses=() if switched else interface.addresses,
                gateways=() if switched else _gateways(plan, interface),
                out_of_band=out_of_band,
            )
        )
    return Node(device.name, device.kind, _one_way_out(tuple(ports)))


def _is_out_of_band(plan: Plan, interface: InterfacePlan) -> bool:
    """Whether the interface belongs on the unmanaged out-of-band bridge: its network is not carried by the fabric."""
    if interface.cable is not None or interface.untagged_vlan is None:
        return False
    return not plan.vlan(interface.untagged_vlan).fabric


def _gateways(plan: Plan, interface: InterfacePlan) -> tuple[str, ...]:
    """The routers of the prefixes in which the interface has an address."""
    if interface.untagged_vlan is None:
        return ()
    own = [ipaddress.ip_interface(address).network for address in interface.addresses]
    return tuple(
        prefix.gateway
        for prefix in plan.vlan(interface.untagged_vlan).prefixes
        if prefix.gateway is not None and ipaddress.ip_network(prefix.prefix) in own
    )


def _one_way_out(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """Leave one default gateway a family: that of the first port that has one."""
    taken: set[int] = set()
    result = []
    for port in ports:
        kept = tuple(gateway for gateway in port.gateways if ipaddress.ip_address(gateway).version not in taken)
        taken |= {ipaddress.ip_address(gateway).version for gateway in kept}
        result.append(Port(port.machine, port.name, port.mac, port.mtu, port.addresses, kept, port.out_of_band))
    return tuple(result)


def _hosts(plan: Plan, nodes: tuple[Node, ...]) -> tuple[tuple[str, str], ...]:
    """Name and address of every device; further addresses of a machine as ``<name>-<interface>``."""
    known = {node.name: node for node in nodes}
    entries: list[tuple[str, str]] = []
    for device in plan.devices:
        node = known.get(device.name)
        chosen = node.address if node else (device.primary_address or "").partition("/")[0]
        if chosen:
            entries.append((device.name, chosen))
        for interface in device.interfaces:
            for address in interface.addresses:
                bare = address.partition("/")[0]
                if bare != chosen:
                    entries.append((f"{device.name}-{interface.name.lower()}", bare))
    return tuple(entries)
