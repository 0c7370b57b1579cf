"""What each ToR switch must hold: VLANs, ports, gateways. Derived from the switch's own device record, so the two cannot disagree."""

from __future__ import annotations

from ipaddress import ip_network

from pinion.plan import flows
from pinion.plan.addressing import network_mtu
from pinion.plan.devices import Wiring
from pinion.plan.model import DevicePlan, FlowPlan, Svi, SwitchPlan, SwitchPort, SwitchVlan, VlanPlan
from pinion.site.allocation import gateway
from pinion.site.catalog import Catalog
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
        svis=_svis(site),
        ssh_sources=_ssh_sources(ending) if site.concerns.firewall is not None else (),
        evidence=platform.evidence,
        origin=device.origin,
    )


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
