"""What each ToR switch must hold: VLANs, ports, gateways. Derived from the switch's own device record, so the two cannot disagree."""

from __future__ import annotations

from ipaddress import ip_network

from pinion.plan import flows, traffic
from pinion.plan.addressing import network_mtu
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
from pinion.site.catalog import Catalog
from pinion.site.model import Purpose, Site

#: MAC address that switches of a pair share for their gateways. Arista's own examples use it (EOS User Manual, "Virtual IP addresses").
VIRTUAL_ROUTER_MAC = "00:1c:73:00:00:99"


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
    svis = _svis(site)
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
        vlans=tuple(SwitchVlan(vid=vlan.vid, name=vlan.name) for vlan in vlans if vlan.fabric),
        ports=tuple(ports),
        svis=svis,
        virtual_router_mac=VIRTUAL_ROUTER_MAC if any(svi.virtual for svi in svis) else None,
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


def _svis(site: Site) -> tuple[Svi, ...]:
    """The gateways of routed VLANs. Two or more switches share each as an anycast gateway."""
    shared = len(site.switches) > 1
    return tuple(
        Svi(vid=network.vid, address=f"{router}/{prefix.prefixlen}", virtual=shared, mtu=network_mtu(network))
        for network in sorted(site.networks.values(), key=lambda network: network.vid)
        if network.purpose is not Purpose.MANAGEMENT
        for prefix, router in gateway(network).items()
        if router is not None
    )
