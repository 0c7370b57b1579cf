"""Devices with their interfaces, addresses and cables, and the index of which device sits behind which switch port."""

from __future__ import annotations

from dataclasses import dataclass, field

from pinion.plan.addressing import addresses, named_addresses, network_mtu, own_gateway_addresses
from pinion.plan.model import CableEnd, DeviceKind, DevicePlan, DeviceStatus, DeviceTypePlan, InterfacePlan, PortMode
from pinion.site.allocation import gateway, identity_number, natural, node_name
from pinion.site.catalog import Catalog, Hardware, Platform
from pinion.site.model import Device, GpuServer, ManagementHost, PiGroup, Purpose, Site, Switch
from pinion.site.quantities import numbers, port_names, switch_ports


@dataclass(frozen=True, slots=True)
class Link:
    """What is plugged into one switch port: the far *device* and *interface*, and the VLAN *network* of the access port.

    *leaving*: the device is decommissioned, and its port is shut.
    """

    device: str
    interface: str
    network: str
    origin: str
    leaving: bool = False


@dataclass(slots=True)
class Wiring:
    """Every occupied switch port: (switch, port) to its link. Filled while hosts are compiled, then read by the fabric."""

    links: dict[tuple[str, str], Link] = field(default_factory=dict)

    def plug(self, written: str, link: Link) -> CableEnd:
        """Plug *link* into the one port that *written* names (``tor-1 Ethernet9``) and return that end."""
        ports = switch_ports(written)
        return self.plug_port(ports.switch, ports.ports[0], link)

    def plug_port(self, switch: str, port: str, link: Link) -> CableEnd:
        """Plug *link* into *port* of *switch* and return that end."""
        self.links[switch, port] = link
        return CableEnd(device=switch, interface=port)


def slug(text: str) -> str:
    """A NetBox slug: lower-case letters, digits and hyphens."""
    words = "".join(letter.lower() if letter.isalnum() else " " for letter in text).split()
    return "-".join(words)


def device_types(site: Site, catalog: Catalog) -> tuple[DeviceTypePlan, ...]:
    """The hardware models that the site uses, each once, by slug."""
    used: dict[str, DeviceTypePlan] = {}
    profiles = [
        *(server.profile for server in site.gpu_servers.values()),
        *(management_host.profile for management_host in site.management_hosts.values()),
    ]
    entries: list[tuple[Hardware, int]] = [
        *((entry, entry.units) for entry in (catalog.switches[switch.model] for switch in site.switches.values())),
        *((entry, entry.units) for entry in (catalog.servers[profile] for profile in profiles)),
        *((catalog.boards[group.board], 0) for group in site.pis.values()),
    ]
    for entry, units in entries:
        key = slug(entry.model)
        used[key] = DeviceTypePlan(manufacturer=entry.manufacturer, model=entry.model, slug=key, units=units)
    return tuple(used[key] for key in sorted(used))


def hosts(site: Site, catalog: Catalog, wiring: Wiring) -> list[DevicePlan]:
    """Management hosts, GPU servers and Pis, in that order, plugged into *wiring*."""
    found = [_management_host(site, catalog, wiring, name) for name in sorted(site.management_hosts, key=natural)]
    found += [_gpu_server(site, catalog, wiring, name) for name in sorted(site.gpu_servers, key=natural)]
    for name in sorted(site.pis, key=natural):
        found += _pis(site, catalog, wiring, name, site.pis[name])
    return found


def status(site: Site, name: str) -> DeviceStatus:
    """What the site file says of the device *name*."""
    return DeviceStatus.DECOMMISSIONING if name in site.decommissioned else DeviceStatus.ACTIVE


def _link(site: Site, device: str, interface: str, network: str, origin: str) -> Link:
    return Link(device, interface, network, origin, device in site.decommissioned)


def _interface(
    site: Site,
    name: str,
    kind: str,
    network: str,
    given: tuple[str, ...],
    cable: CableEnd | None,
    mac: str | None = None,
) -> InterfacePlan:
    fabric = site.networks[network].purpose is not Purpose.MANAGEMENT
    return InterfacePlan(
        name=name,
        type=kind,
        management_only=not fabric,
        mac=mac.upper() if mac else None,
        mtu=network_mtu(site.networks[network]),
        mode=PortMode.ACCESS,
        untagged_vlan=network,
        addresses=given,
        cable=cable,
        owns_cable=cable is not None,
    )


def _device(
    site: Site,
    name: str,
    kind: DeviceKind,
    stated: Device,
    platform: str,
    device_type: str,
    interfaces: tuple[InterfacePlan, ...],
    lab: bool,
    origin: str,
) -> DevicePlan:
    return DevicePlan(
        name=name,
        kind=kind,
        device_type=device_type,
        platform=platform,
        rack=stated.rack,
        position=stated.unit,
        serial=stated.serial,
        description=stated.description,
        interfaces=interfaces,
        primary_address=next((address for interface in interfaces for address in interface.addresses), None),
        lab=lab,
        status=status(site, name),
        origin=origin,
    )


def _management_host(site: Site, catalog: Catalog, wiring: Wiring, name: str) -> DevicePlan:
    stated: ManagementHost = site.management_hosts[name]
    profile = catalog.servers[stated.profile]
    origin = f"management_hosts.{name}"
    platform = stated.platform
    outer, inner = profile.ports[0], profile.ports[1]
    cable = wiring.plug(stated.port, _link(site, name, inner.name, stated.fabric_network, origin))
    out_of_band = named_addresses(site.networks[stated.network], name, "management-hosts", stated.range, stated.address)
    fabric = named_addresses(
        site.networks[stated.fabric_network], name, "management-hosts", None, stated.fabric_address
    )
    interfaces = (
        _interface(site, outer.name, outer.type, stated.network, out_of_band, None, stated.mac),
        _interface(site, inner.name, inner.type, stated.fabric_network, fabric, cable),
    )
    return _device(
        site,
        name,
        DeviceKind.MANAGEMENT_HOST,
        stated,
        platform,
        slug(profile.model),
        interfaces,
        catalog.platforms[platform].lab,
        origin,
    )


def _gpu_server(site: Site, catalog: Catalog, wiring: Wiring, name: str) -> DevicePlan:
    stated: GpuServer = site.gpu_servers[name]
    profile = catalog.servers[stated.profile]
    origin = f"gpu_servers.{name}"
    platform = stated.platform
    control = profile.ports[0]
    cable = wiring.plug(stated.port, _link(site, name, control.name, stated.network, origin))
    own = named_addresses(site.networks[stated.network], name, "gpu-servers", stated.range, stated.address)
    interfaces = [_interface(site, control.name, control.type, stated.network, own, cable, stated.mac)]
    if stated.rdma is not None:
        ports = [(switch, port) for switch, written in stated.rdma.ports.items() for port in port_names(written)]
        for index, (nic, (switch, port)) in enumerate(zip(profile.rdma_ports, ports, strict=True)):
            ordinal = (identity_number(name) - 1) * len(profile.rdma_ports) + index
            given = addresses(site.networks[stated.rdma.network], stated.rdma.range, ordinal)
            end = wiring.plug_port(switch, port, _link(site, name, nic.name, stated.rdma.network, f"{origin}.rdma"))
            interfaces.append(_interface(site, nic.name, nic.type, stated.rdma.network, given, end))
    return _device(
        site,
        name,
        DeviceKind.GPU_SERVER,
        stated,
        platform,
        slug(profile.model),
        tuple(interfaces),
        catalog.platforms[platform].lab,
        origin,
    )


def _pis(site: Site, catalog: Catalog, wiring: Wiring, group_name: str, group: PiGroup) -> list[DevicePlan]:
    board = catalog.boards[group.board]
    hat = catalog.hats[group.hat] if group.hat is not None else None
    ports = switch_ports(group.ports)
    network = site.networks[group.network]
    fitted = group.description or (f"{hat.model} ({hat.chip})" if hat is not None else "")
    found = []
    for number in numbers(group.numbers):
        override = group.nodes.get(number)
        name, ordinal, origin = node_name(group_name, number), number - group.first, f"pis.{group_name} {number}"
        link = _link(site, name, board.port.name, group.network, origin)
        cable = (
            wiring.plug(override.port, link)
            if override and override.port
            else wiring.plug_port(ports.switch, ports.ports[ordinal], link)
        )
        given = addresses(network, group.range, ordinal, override.address if override else None)
        interface = _interface(
            site, board.port.name, board.port.type, group.network, given, cable, override.mac if override else None
        )
        found.append(
            DevicePlan(
                name=name,
                kind=DeviceKind.PI,
                device_type=slug(board.model),
                platform=group.platform,
                rack=group.rack,
                position=None,
                serial=override.serial if override else "",
                description=fitted,
                interfaces=(interface,),
                primary_address=interface.addresses[0],
                lab=catalog.platforms[group.platform].lab,
                status=status(site, name),
                origin=origin,
            )
        )
    return found


def switch_device(site: Site, catalog: Catalog, wiring: Wiring, name: str) -> DevicePlan:
    """The switch *name* as a device: management port, every front port with what is plugged in, and its routed VLANs."""
    stated: Switch = site.switches[name]
    model = catalog.switches[stated.model]
    own = named_addresses(site.networks[stated.network], name, "switches", stated.range, stated.address)
    management = _interface(
        site, model.management_port.name, model.management_port.type, stated.network, own, None, stated.mac
    )
    fabric = tuple(
        vlan
        for vlan, network in sorted(site.networks.items(), key=lambda item: item[1].vid)
        if network.purpose is not Purpose.MANAGEMENT
    )
    pair = (
        dict(zip(port_names(stated.pair_ports), _pair_ports(site, stated), strict=True))
        if stated.pair and stated.pair_ports
        else {}
    )
    uplinks = set(port_names(stated.uplinks)) if stated.uplinks else set()
    ports = []
    for group in model.ports:
        for port in group.each():
            if port in pair:
                far = CableEnd(device=stated.pair or "", interface=pair[port])
                ports.append(
                    _trunk(
                        port,
                        group.type,
                        fabric,
                        f"{far.device} {far.interface}",
                        far,
                        owns=natural(name) < natural(far.device),
                    )
                )
            elif port in uplinks:
                ports.append(_trunk(port, group.type, fabric, "uplink", None, owns=False))
            else:
                ports.append(_front_port(port, group.type, wiring.links.get((name, port))))
    interfaces = (management, *ports, *_routed_vlans(site, catalog.platforms[stated.platform], name))
    return _device(
        site,
        name,
        DeviceKind.SWITCH,
        stated,
        stated.platform,
        slug(model.model),
        interfaces,
        catalog.platforms[stated.platform].lab,
        f"switches.{name}",
    )


def _pair_ports(site: Site, stated: Switch) -> tuple[str, ...]:
    far = site.switches[stated.pair or ""]
    return port_names(far.pair_ports or stated.pair_ports or "")


def _trunk(
    port: str, kind: str, fabric: tuple[str, ...], description: str, far: CableEnd | None, *, owns: bool
) -> InterfacePlan:
    return InterfacePlan(
        name=port,
        type=kind,
        description=description,
        mode=PortMode.TRUNK,
        tagged_vlans=fabric,
        cable=far,
        owns_cable=owns,
    )


def _front_port(port: str, kind: str, link: Link | None) -> InterfacePlan:
    if link is None:
        return InterfacePlan(name=port, type=kind, enabled=False)
    if link.leaving:
        return InterfacePlan(
            name=port,
            type=kind,
            enabled=False,
            description=f"{link.device} {link.interface}, decommissioned",
            cable=CableEnd(device=link.device, interface=link.interface),
        )
    return InterfacePlan(
        name=port,
        type=kind,
        description=f"{link.device} {link.interface}",
        mode=PortMode.ACCESS,
        untagged_vlan=link.network,
        cable=CableEnd(device=link.device, interface=link.interface),
    )


def _routed_vlans(site: Site, platform: Platform, switch: str) -> list[InterfacePlan]:
    """One virtual interface a routed VLAN. A pair shares its gateway addresses, so they are no single device's own."""
    shared = len(site.switches) > 1
    found = []
    for name, network in sorted(site.networks.items(), key=lambda item: item[1].vid):
        routers = gateway(network)
        if network.purpose is Purpose.MANAGEMENT or not any(routers.values()):
            continue
        own = tuple(f"{router}/{prefix.prefixlen}" for prefix, router in routers.items() if router is not None)
        found.append(
            InterfacePlan(
                name=f"Vlan{network.vid}",
                type="virtual",
                description=f"gateway of {name}",
                mtu=network_mtu(network),
                addresses=own_gateway_addresses(site, platform, switch, network) if shared else own,
            )
        )
    return found
