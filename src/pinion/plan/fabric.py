"""What each ToR switch must hold: VLANs, ports, gateways. Derived from the switch's own device record, so the two cannot disagree."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from pinion.plan import flows, traffic
from pinion.plan.addressing import network_mtu, own_gateway_addresses
from pinion.plan.devices import Wiring
from pinion.plan.model import (
    DevicePlan,
    FlowPlan,
    InterfacePlan,
    Svi,
    SwitchPlan,
    SwitchPort,
    SwitchQos,
    SwitchVlan,
    VlanPlan,
)
from pinion.site.allocation import gateway
from pinion.site.catalog import Catalog, Platform
from pinion.site.model import Purpose, Site


def switch(
    site: Site,
    catalog: Catalog,
    wiring: Wiring,
    device: DevicePlan,
    vlans: tuple[VlanPlan, ...],
    ending: tuple[FlowPlan, ...],
) -> SwitchPlan:
    """The configuration of the switch whose record is *device*; *ending* are the flows that end at it."""
    platform = catalog.platforms[device.platform]
    if platform.driver is None:
        raise ValueError(f"platform '{device.platform}' of switch {device.name} has no switch driver")
    model = catalog.switches[site.switches[device.name].model]
    vids = {vlan.name: vlan.vid for vlan in vlans}
    front = {port for group in model.ports for port in group.each()}
    qos = traffic.switch_qos(site, catalog, platform, model)
    svis = tuple(_svis(site, platform, device.name))
    ports = []
    for interface in device.interfaces:
        if interface.name not in front:
            continue
        link = wiring.links.get((device.name, interface.name))
        ports.append(
            SwitchPort(
                name=interface.name,
                description=interface.description,
                enabled=interface.enabled,
                mode=interface.mode,
                access_vlan=vids[interface.untagged_vlan] if interface.untagged_vlan is not None else None,
                trunk_vlans=tuple(sorted(vids[name] for name in interface.tagged_vlans)),
                qos_profile=_qos_profile(site, qos, interface),
                origin=link.origin if link is not None else device.origin,
            )
        )
    return SwitchPlan(
        name=device.name,
        platform=device.platform,
        driver=platform.driver,
        model=model.model,
        management_interface=model.management_port.name,
        management_address=device.primary_address or "",
        vlan_names=platform.vlan_names,
        vlans=tuple(SwitchVlan(vid=vlan.vid, name=vlan.name) for vlan in vlans if vlan.fabric),
        ports=tuple(ports),
        svis=svis,
        virtual_router_mac=platform.virtual_router_mac if any(svi.virtual for svi in svis) else None,
        qos=qos,
        ssh_sources=_ssh_sources(ending) if site.concerns.firewall is not None else (),
        evidence=platform.evidence,
        origin=device.origin,
    )


def _qos_profile(site: Site, qos: SwitchQos | None, interface: InterfacePlan) -> str | None:
    """What the port *interface* does with classes: it pauses only where the other end does."""
    if qos is None or not interface.enabled or interface.mode is None:
        return None
    network = site.networks.get(interface.untagged_vlan or "")
    both_ends = interface.cable is not None and (
        interface.cable.device in site.switches or (network is not None and network.purpose is Purpose.RDMA)
    )
    lossless = both_ends and qos.profile(traffic.LOSSLESS_PROFILE) is not None
    return traffic.LOSSLESS_PROFILE if lossless else traffic.LOSSY_PROFILE


def _ssh_sources(ending: tuple[FlowPlan, ...]) -> tuple[str, ...]:
    """Who may log in: the sources of all flows to SSH, as prefixes, since a standard access list knows no spans."""
    spans = (span for flow in ending if flow.protocol == "tcp" and flows.SSH in flow.ports for span in flow.sources)
    return tuple(str(ip_network(prefix)) for span in flows.collapse(spans) for prefix in flows.prefixes_of(span))


def _svis(site: Site, platform: Platform, switch: str) -> Iterator[Svi]:
    """The gateways of routed VLANs. Two or more switches share each as an anycast gateway, beside an address of their own where needed."""
    shared = len(site.switches) > 1
    for network in sorted(site.networks.values(), key=lambda network: network.vid):
        if network.purpose is Purpose.MANAGEMENT:
            continue
        mtu = network_mtu(network)
        for address in own_gateway_addresses(site, platform, switch, network):
            yield Svi(vid=network.vid, address=address, virtual=False, mtu=mtu)
        for prefix, router in gateway(network).items():
            if router is not None:
                yield Svi(vid=network.vid, address=f"{router}/{prefix.prefixlen}", virtual=shared, mtu=mtu)
