"""From a Plan to the three units. Pure: no choice is made here. What plan and unit call the same is taken as it is."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from pinion.drivers.netbox.kinds import slugify
from pinion.drivers.netbox.wanted.records import DeviceRecord, IpRange, Named, Prefix, Rack, SiteRecords, VlanRecord
from pinion.plan.model import DeviceKind, Plan
from pinion.plan.model.networks import RangePlan

M = TypeVar("M", bound=BaseModel)

_KIND_NAMES = {
    DeviceKind.SWITCH: "Switch",
    DeviceKind.MANAGEMENT_HOST: "Management host",
    DeviceKind.PI: "Pi",
    DeviceKind.GPU_SERVER: "GPU server",
}


def _taken(model: type[M], planned: BaseModel, **stated: object) -> M:
    """A record of *planned*: what is not *stated* has the same name there."""
    same = {
        name: getattr(planned, name) for name in model.model_fields if name not in stated and hasattr(planned, name)
    }
    return model.model_validate({**same, **stated}, from_attributes=True)


def site_records(plan: Plan) -> SiteRecords:
    """The site's own records and the catalogue objects that its devices and VLANs refer to."""
    kinds = dict.fromkeys(device.kind for device in plan.devices)
    purposes = dict.fromkeys(vlan.purpose.value for vlan in plan.vlans)
    return _taken(
        SiteRecords,
        plan,
        name=plan.site,
        region=slugify(plan.region) if plan.region else None,
        racks=tuple(_taken(Rack, rack) for rack in plan.racks),
        device_roles=tuple(Named(slug=kind.value, name=_KIND_NAMES[kind]) for kind in kinds),
        platforms=tuple(_taken(Named, one) for one in plan.platforms),
        vlan_roles=tuple(Named(slug=purpose, name=purpose) for purpose in purposes),
    )


def vlan_record(plan: Plan, name: str) -> VlanRecord:
    """One VLAN with its prefixes and ranges. `KeyError` when the plan has none of that name."""
    vlan = plan.vlan(name)
    texts = {one.prefix: f"gateway {one.gateway}" if one.gateway else "not routed" for one in vlan.prefixes}
    return _taken(
        VlanRecord,
        vlan,
        site=plan.site,
        role=vlan.purpose.value,
        prefixes=tuple(Prefix(prefix=prefix, description=text) for prefix, text in texts.items()),
        ranges=tuple(_range(span) for span in vlan.ranges),
    )


def _range(span: RangePlan) -> IpRange:
    length = span.prefix.rpartition("/")[2]
    text = f"{span.name}: handed out by DHCP" if span.dhcp else f"{span.name}: static"
    return IpRange(name=span.name, start=f"{span.start}/{length}", end=f"{span.end}/{length}", description=text)


def device_record(plan: Plan, name: str) -> DeviceRecord:
    """One device. `KeyError` when the plan has none of that name. A cable stands on the interface whose device makes it."""
    device = plan.device(name)
    makers = {one.slug: slugify(one.manufacturer) for one in plan.device_types}
    interfaces = [one if one.owns_cable else one.model_copy(update={"cable": None}) for one in device.interfaces]
    return _taken(
        DeviceRecord,
        device,
        site=plan.site,
        role=device.kind.value,
        manufacturer=makers[device.device_type],
        status=device.status.value,
        interfaces=interfaces,
    )
