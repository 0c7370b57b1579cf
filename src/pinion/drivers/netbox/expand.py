"""From a unit to its wants: which records a site, a VLAN, a device consist of. Pure."""

from __future__ import annotations

import ipaddress

from pinion.drivers.netbox.desired import DeviceRecord, Interface, SiteRecords, VlanRecord, slugify
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    DEVICE_ROLE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MAC_ADDRESS,
    MANUFACTURER,
    PLATFORM,
    PREFIX,
    RACK,
    REGION,
    SITE,
    VLAN,
    VLAN_GROUP,
    VLAN_ROLE,
    Kind,
)
from pinion.drivers.netbox.wants import Ends, Ref, Value, Want

#: NetBox's words for the two modes of a port.
MODES = {"access": "access", "trunk": "tagged", None: None}


def site_mark(site: str) -> str:
    """Mark of a site's unit."""
    return f"{site}/site"


def vlan_mark(site: str, name: str) -> str:
    """Mark of a VLAN's unit."""
    return f"{site}/vlan/{name}"


def device_mark(site: str, name: str) -> str:
    """Mark of a device's unit."""
    return f"{site}/device/{name}"


def _site_ref(site: str) -> Ref:
    return Ref(SITE, site_mark(site), f"site {site}", (("slug", site),))


def _slug_ref(kind: Kind, site: str, slug: str) -> Ref:
    return Ref(kind, f"{site_mark(site)}/{_STEM[kind]}/{slug}", f"{kind.name} {slug}", (("slug", slug),))


_STEM = {
    REGION: "region",
    MANUFACTURER: "manufacturer",
    DEVICE_ROLE: "device-role",
    PLATFORM: "platform",
    VLAN_ROLE: "vlan-role",
}


def _group_ref(site: str) -> Ref:
    natural: tuple[tuple[str, Value], ...] = (
        ("slug", site),
        ("scope_type", "dcim.site"),
        ("scope_id", _site_ref(site)),
    )
    return Ref(VLAN_GROUP, f"{site_mark(site)}/vlan-group", f"VLAN group {site}", natural)


def _vlan_ref(site: str, name: str) -> Ref:
    return Ref(VLAN, vlan_mark(site, name), f"VLAN {name}", (("group", _group_ref(site)), ("name", name)))


def _type_ref(site: str, manufacturer: str, slug: str) -> Ref:
    natural: tuple[tuple[str, Value], ...] = (
        ("manufacturer", _slug_ref(MANUFACTURER, site, manufacturer)),
        ("slug", slug),
    )
    return Ref(
        DEVICE_TYPE,
        f"{site_mark(site)}/device-type/{manufacturer}/{slug}",
        f"device type {manufacturer}/{slug}",
        natural,
    )


def _device_ref(site: str, name: str) -> Ref:
    return Ref(DEVICE, device_mark(site, name), f"device {name}", (("site", _site_ref(site)), ("name", name)))


def _interface_ref(site: str, device: str, name: str) -> Ref:
    natural: tuple[tuple[str, Value], ...] = (("device", _device_ref(site, device)), ("name", name))
    return Ref(INTERFACE, f"{device_mark(site, device)}/interface/{name}", f"interface {name} of {device}", natural)


# --- site -------------------------------------------------------------------------------------------------------------------


def expand_site(unit: SiteRecords) -> list[Want]:
    """The records of a site: region, site, VLAN group, racks, and the catalogue objects, which are shared with other sites."""
    mark, site = site_mark(unit.site), _site_ref(unit.site)
    wants: list[Want] = []
    if unit.region:
        wants.append(_catalogue(REGION, unit.site, unit.region, unit.region, "region"))
    region = _slug_ref(REGION, unit.site, unit.region) if unit.region else None
    wants.append(
        Want(
            SITE, mark, f"site {unit.name}",
            {"slug": unit.site, "name": unit.name, "region": region, "status": "active", "description": unit.description},
            paths={"slug": "site", "name": "name", "region": "region", "description": "description"},
        )
    )  # fmt: skip
    wants.append(
        Want(
            VLAN_GROUP, f"{mark}/vlan-group", f"VLAN group {unit.site}",
            {"name": unit.site, "slug": unit.site, "scope_type": "dcim.site", "scope_id": site},
        )
    )  # fmt: skip
    wants += [
        Want(
            RACK, f"{mark}/rack/{rack.name}", f"rack {rack.name}",
            {"name": rack.name, "site": site, "status": "active", "u_height": rack.units, "description": rack.description},
            f"racks[{rack.name}]", {"name": "name", "u_height": "units", "description": "description"},
        )
        for rack in unit.racks
    ]  # fmt: skip
    return wants + _catalogue_wants(unit)


def _catalogue_wants(unit: SiteRecords) -> list[Want]:
    wants = [
        _catalogue(MANUFACTURER, unit.site, slugify(maker), maker, f"device_types[{maker}]")
        for maker in dict.fromkeys(one.manufacturer for one in unit.device_types)
    ]
    for one in unit.device_types:
        maker = slugify(one.manufacturer)
        wants.append(
            Want(
                DEVICE_TYPE, _type_ref(unit.site, maker, one.slug).mark, f"device type {one.model}",
                {"manufacturer": _slug_ref(MANUFACTURER, unit.site, maker), "model": one.model, "slug": one.slug, "u_height": one.units},
                f"device_types[{one.slug}]", {"model": "model", "slug": "slug", "u_height": "units"}, shared=True,
            )
        )  # fmt: skip
    for kind, stem, items in (
        (DEVICE_ROLE, "device_roles", unit.device_roles),
        (PLATFORM, "platforms", unit.platforms),
        (VLAN_ROLE, "vlan_roles", unit.vlan_roles),
    ):
        wants += [_catalogue(kind, unit.site, item.slug, item.name, f"{stem}[{item.slug}]") for item in items]
    return wants


def _catalogue(kind: Kind, site: str, slug: str, name: str, path: str) -> Want:
    body: dict[str, Value] = {"slug": slug, "name": name}
    return Want(
        kind,
        _slug_ref(kind, site, slug).mark,
        f"{kind.name} {name}",
        body,
        path,
        {"slug": "slug", "name": "name"},
        shared=True,
    )


# --- VLAN -------------------------------------------------------------------------------------------------------------------


def expand_vlan(unit: VlanRecord) -> list[Want]:
    """The records of a VLAN: itself (in the site's group, always: without one NetBox accepts it twice), prefixes, ranges."""
    mark, site, me = vlan_mark(unit.site, unit.name), _site_ref(unit.site), _vlan_ref(unit.site, unit.name)
    role = _slug_ref(VLAN_ROLE, unit.site, unit.role) if unit.role else None
    wants = [
        Want(
            VLAN, mark, f"VLAN {unit.name} ({unit.site})",
            {"vid": unit.vid, "name": unit.name, "group": _group_ref(unit.site), "site": site, "status": "active", "role": role,
             "description": unit.description},
            paths={"vid": "vid", "name": "name", "role": "role", "description": "description"},
        )
    ]  # fmt: skip
    here: dict[str, Value] = {"vlan": me, "scope_type": "dcim.site", "scope_id": site}
    common: dict[str, Value] = {"vrf": None, "status": "active", "role": role}
    wants += [
        Want(
            PREFIX, f"{mark}/prefix/{one.prefix}", f"prefix {one.prefix}",
            {"prefix": one.prefix, **common, **here, "description": one.description},
            f"prefixes[{one.prefix}]", {"prefix": "prefix", "description": "description"},
        )
        for one in unit.prefixes
    ]  # fmt: skip
    wants += [
        Want(
            IP_RANGE, f"{mark}/range/{one.name}", f"IP range {one.name} ({one.start}-{one.end})",
            {"start_address": one.start, "end_address": one.end, **common, "description": one.description},
            f"ranges[{one.name}]", {"start_address": "start", "end_address": "end", "description": "description"},
        )
        for one in unit.ranges
    ]  # fmt: skip
    return wants


# --- device -----------------------------------------------------------------------------------------------------------------


def expand_device(unit: DeviceRecord) -> list[Want]:
    """The records of a device: itself, interfaces, MAC addresses, addresses, cables; primary address and primary MAC come late."""
    mark, site = device_mark(unit.site, unit.name), _site_ref(unit.site)
    rack: Value = None
    if unit.rack:
        rack = Ref(
            RACK, f"{site_mark(unit.site)}/rack/{unit.rack}", f"rack {unit.rack}", (("site", site), ("name", unit.rack))
        )
    body: dict[str, Value] = {
        "name": unit.name, "site": site, "rack": rack, "position": unit.position, "face": "front" if unit.position else None,
        "role": _slug_ref(DEVICE_ROLE, unit.site, unit.role), "device_type": _type_ref(unit.site, unit.manufacturer, unit.device_type),
        "platform": _slug_ref(PLATFORM, unit.site, unit.platform) if unit.platform else None,
        "status": unit.status, "serial": unit.serial, "description": unit.description,
    }  # fmt: skip
    shown = {
        name: name
        for name in ("name", "rack", "position", "role", "device_type", "platform", "status", "serial", "description")
    }
    late = _primary(unit)
    wants = [
        Want(
            DEVICE,
            mark,
            f"device {unit.name} ({unit.site})",
            body,
            "",
            {**shown, **dict.fromkeys(late, "primary_address")},
            late,
        )
    ]
    for interface in unit.interfaces:
        wants += _expand_interface(unit, interface)
    return wants


def _primary(unit: DeviceRecord) -> dict[str, Value]:
    late: dict[str, Value] = {"primary_ip4": None, "primary_ip6": None}
    if unit.primary_address:
        family = ipaddress.ip_interface(unit.primary_address).version
        late[f"primary_ip{family}"] = _address_ref(unit, unit.primary_address)
    return late


def _address_ref(unit: DeviceRecord, address: str) -> Ref:
    return Ref(
        IP_ADDRESS,
        f"{device_mark(unit.site, unit.name)}/address/{address}",
        f"address {address}",
        (("address", address), ("vrf", None)),
    )


def _expand_interface(unit: DeviceRecord, one: Interface) -> list[Want]:
    mark, me, path = (
        device_mark(unit.site, unit.name),
        _interface_ref(unit.site, unit.name, one.name),
        f"interfaces[{one.name}]",
    )
    label = f"interface {one.name} of {unit.name}"
    mac = (
        Ref(MAC_ADDRESS, f"{mark}/mac/{one.name}", f"MAC address {one.mac}", (("mac_address", one.mac),))
        if one.mac
        else None
    )
    device = _device_ref(unit.site, unit.name)
    wants = [
        Want(
            INTERFACE, me.mark, label,
            {"device": device, "name": one.name, "type": one.type, "enabled": one.enabled, "mgmt_only": one.management_only, "mtu": one.mtu,
             "mode": MODES[one.mode], "untagged_vlan": _vlan_ref(unit.site, one.untagged_vlan) if one.untagged_vlan else None,
             "tagged_vlans": tuple(_vlan_ref(unit.site, name) for name in one.tagged_vlans), "description": one.description},
            path,
            {"name": "name", "type": "type", "enabled": "enabled", "mgmt_only": "management_only", "mtu": "mtu", "mode": "mode",
             "untagged_vlan": "untagged_vlan", "tagged_vlans": "tagged_vlans", "description": "description", "primary_mac_address": "mac"},
            {"primary_mac_address": mac} if mac else {}, inside=device,
        )
    ]  # fmt: skip
    assigned: dict[str, Value] = {"assigned_object_type": "dcim.interface", "assigned_object_id": me}
    if mac:
        wants.append(
            Want(
                MAC_ADDRESS,
                mac.mark,
                mac.label,
                {"mac_address": one.mac, **assigned},
                path,
                {"mac_address": "mac"},
                inside=me,
            )
        )
    for address in one.addresses:
        body: dict[str, Value] = {"address": address, "vrf": None, "status": "active", **assigned}
        paths = {"address": "", "assigned_object_id": ""}
        wants.append(
            Want(
                IP_ADDRESS,
                f"{mark}/address/{address}",
                f"address {address}",
                body,
                f"{path}.addresses[{address}]",
                paths,
                inside=me,
            )
        )
    if one.cable:
        far = _interface_ref(unit.site, one.cable.device, one.cable.interface)
        ends: dict[str, Value] = {"status": "connected", "a_terminations": Ends(me), "b_terminations": Ends(far)}
        text = f"cable {unit.name} {one.name} to {one.cable.device} {one.cable.interface}"
        paths = {"a_terminations": "", "b_terminations": ""}
        wants.append(Want(CABLE, f"{mark}/cable/{one.name}", text, ends, f"{path}.cable", paths, inside=me))
    return wants
