"""From a Plan to the three units. Pure: no choice is made here, only words are changed."""

from __future__ import annotations

from pinion.drivers.netbox.desired import (
    CableTo,
    DeviceRecord,
    DeviceType,
    Interface,
    IpRange,
    Named,
    Prefix,
    Rack,
    SiteRecords,
    VlanRecord,
    slugify,
)
from pinion.plan.model import DeviceKind, InterfacePlan, Plan

_KIND_NAMES = {
    DeviceKind.SWITCH: "Switch",
    DeviceKind.MANAGEMENT_HOST: "Management host",
    DeviceKind.PI: "Pi",
    DeviceKind.GPU_SERVER: "GPU server",
}


def site_records(plan: Plan) -> SiteRecords:
    """The site's own records and the catalogue objects that its devices and VLANs refer to."""
    kinds = dict.fromkeys(device.kind for device in plan.devices)
    purposes = dict.fromkeys(vlan.purpose for vlan in plan.vlans)
    return SiteRecords(
        site=plan.site,
        name=plan.site,
        region=slugify(plan.region) if plan.region else None,
        description=plan.description,
        racks=tuple(Rack(name=rack.name, units=rack.units, description=rack.description) for rack in plan.racks),
        device_types=tuple(
            DeviceType(manufacturer=one.manufacturer, model=one.model, slug=one.slug, units=one.units)
            for one in plan.device_types
        ),
        device_roles=tuple(Named(slug=kind.value, name=_KIND_NAMES[kind]) for kind in kinds),
        platforms=tuple(Named(slug=one.slug, name=one.name) for one in plan.platforms),
        vlan_roles=tuple(Named(slug=purpose.value, name=purpose.value) for purpose in purposes),
    )


def vlan_record(plan: Plan, name: str) -> VlanRecord:
    """One VLAN with its prefixes and ranges. `KeyError` when the plan has none of that name."""
    vlan = plan.vlan(name)
    ranges = []
    for span in vlan.ranges:
        length = span.prefix.rpartition("/")[2]
        ranges.append(
            IpRange(
                name=span.name,
                start=f"{span.start}/{length}",
                end=f"{span.end}/{length}",
                description=_range_text(span.name, span.dhcp),
            )
        )
    return VlanRecord(
        site=plan.site,
        name=vlan.name,
        vid=vlan.vid,
        role=vlan.purpose.value,
        description=vlan.description,
        prefixes=tuple(
            Prefix(prefix=one.prefix, description=f"gateway {one.gateway}" if one.gateway else "not routed")
            for one in vlan.prefixes
        ),
        ranges=tuple(ranges),
    )


def _range_text(name: str, dhcp: bool) -> str:
    return f"{name}: handed out by DHCP" if dhcp else f"{name}: static"


def device_record(plan: Plan, name: str) -> DeviceRecord:
    """One device. `KeyError` when the plan has none of that name."""
    device = plan.device(name)
    makers = {one.slug: slugify(one.manufacturer) for one in plan.device_types}
    return DeviceRecord(
        site=plan.site,
        name=device.name,
        role=device.kind.value,
        manufacturer=makers[device.device_type],
        device_type=device.device_type,
        platform=device.platform,
        rack=device.rack,
        position=device.position,
        status=device.status.value,
        serial=device.serial,
        description=device.description,
        interfaces=tuple(_interface(one) for one in device.interfaces),
        primary_address=device.primary_address,
    )


def _interface(one: InterfacePlan) -> Interface:
    cable = CableTo(device=one.cable.device, interface=one.cable.interface) if one.cable and one.owns_cable else None
    return Interface(
        name=one.name,
        type=one.type,
        enabled=one.enabled,
        management_only=one.management_only,
        mac=one.mac,
        mtu=one.mtu,
        description=one.description,
        mode=one.mode.value if one.mode else None,
        untagged_vlan=one.untagged_vlan,
        tagged_vlans=one.tagged_vlans,
        addresses=one.addresses,
        cable=cable,
    )
