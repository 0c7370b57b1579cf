"""The rules of NetBox that the in-memory store keeps: what refers to what, what is unique, what a deletion takes along.

Every rule here was seen on a live NetBox 4.6.8 or 4.7.3; the contract suite runs against both stores to keep it so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import (
    CABLE,
    CUSTOM_FIELDS,
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
    TAGS,
    VLAN,
    VLAN_GROUP,
    VLAN_ROLE,
    Kind,
)
from pinion.drivers.netbox.plain import cable_ends
from pinion.drivers.netbox.store import Body

Row = Mapping[str, JsonValue]
Tables = Mapping[Kind, Mapping[int, Row]]
Errors = dict[str, JsonValue]

_NAMED = ("name", "slug")
REQUIRED: dict[Kind, tuple[str, ...]] = {
    TAGS: _NAMED,
    CUSTOM_FIELDS: ("name", "type", "object_types"),
    REGION: _NAMED,
    SITE: _NAMED,
    MANUFACTURER: _NAMED,
    DEVICE_TYPE: ("manufacturer", "model", "slug"),
    DEVICE_ROLE: _NAMED,
    PLATFORM: _NAMED,
    VLAN_ROLE: _NAMED,
    VLAN_GROUP: _NAMED,
    RACK: ("name", "site"),
    VLAN: ("vid", "name"),
    PREFIX: ("prefix",),
    IP_RANGE: ("start_address", "end_address"),
    DEVICE: ("device_type", "role", "site"),
    INTERFACE: ("device", "name", "type"),
    MAC_ADDRESS: ("mac_address",),
    IP_ADDRESS: ("address",),
    CABLE: ("a_terminations", "b_terminations"),
}

#: Fields that hold the id of another record.
REFERENCES: dict[Kind, dict[str, Kind]] = {
    REGION: {"parent": REGION},
    SITE: {"region": REGION},
    DEVICE_TYPE: {"manufacturer": MANUFACTURER},
    RACK: {"site": SITE},
    VLAN: {"group": VLAN_GROUP, "site": SITE, "role": VLAN_ROLE},
    PREFIX: {"vlan": VLAN, "role": VLAN_ROLE},
    IP_RANGE: {"role": VLAN_ROLE},
    DEVICE: {
        "site": SITE,
        "rack": RACK,
        "role": DEVICE_ROLE,
        "device_type": DEVICE_TYPE,
        "platform": PLATFORM,
        "primary_ip4": IP_ADDRESS,
        "primary_ip6": IP_ADDRESS,
    },
    INTERFACE: {"device": DEVICE, "untagged_vlan": VLAN, "primary_mac_address": MAC_ADDRESS},
}
CHOICES = frozenset({"status", "face", "mode", "type", "filter_logic"})

DEFAULTS: dict[Kind, Body] = {
    SITE: {"status": "active"},
    RACK: {"status": "active", "u_height": 42},
    VLAN: {"status": "active"},
    PREFIX: {"status": "active"},
    IP_RANGE: {"status": "active"},
    DEVICE: {"status": "active", "serial": ""},
    INTERFACE: {"enabled": True, "mgmt_only": False, "tagged_vlans": []},
    IP_ADDRESS: {"status": "active"},
    CABLE: {"status": "connected"},
    DEVICE_TYPE: {"u_height": 1},
    CUSTOM_FIELDS: {"filter_logic": "loose"},
}

#: What a deletion is refused for: (referring kind, its field), and what it blanks.
PROTECTED: dict[Kind, tuple[tuple[Kind, str], ...]] = {
    SITE: ((RACK, "site"), (DEVICE, "site"), (VLAN, "site")),
    MANUFACTURER: ((DEVICE_TYPE, "manufacturer"),),
    DEVICE_TYPE: ((DEVICE, "device_type"),),
    DEVICE_ROLE: ((DEVICE, "role"),),
    VLAN_GROUP: ((VLAN, "group"),),
    RACK: ((DEVICE, "rack"),),
    VLAN: ((PREFIX, "vlan"),),
}
BLANKED: dict[Kind, tuple[tuple[Kind, str], ...]] = {
    REGION: ((SITE, "region"),),
    PLATFORM: ((DEVICE, "platform"),),
    VLAN_ROLE: ((VLAN, "role"), (PREFIX, "role"), (IP_RANGE, "role")),
    VLAN: ((INTERFACE, "untagged_vlan"),),
    IP_ADDRESS: ((DEVICE, "primary_ip4"), (DEVICE, "primary_ip6")),
    MAC_ADDRESS: ((INTERFACE, "primary_mac_address"),),
}


def cascade(kind: Kind, number: int, tables: Tables) -> Iterator[tuple[Kind, int]]:
    """What NetBox deletes along with a record, without a word."""
    if kind is SITE:
        for other in (PREFIX, VLAN_GROUP):
            yield from (
                (other, key)
                for key, row in tables[other].items()
                if (row.get("scope_type"), row.get("scope_id")) == ("dcim.site", number)
            )
    if kind is DEVICE:
        yield from ((INTERFACE, key) for key, row in tables[INTERFACE].items() if row.get("device") == number)
    if kind is INTERFACE:
        for other in (IP_ADDRESS, MAC_ADDRESS):
            yield from ((other, key) for key, row in tables[other].items() if row.get("assigned_object_id") == number)


def unique_keys(kind: Kind, row: Row) -> Iterator[tuple[tuple[JsonValue, ...], Errors]]:
    """Keys that a constraint of the database guards, with the error for the second."""
    if kind in (TAGS, REGION, SITE, MANUFACTURER, VLAN_ROLE, DEVICE_ROLE, PLATFORM):
        for name in ("slug", "name"):
            yield (name, row.get(name)), {name: [f"{kind.name} with this {name} already exists."]}
    elif kind is CUSTOM_FIELDS:
        yield ("name", row.get("name")), {"name": ["custom field with this Name already exists."]}
    elif kind is DEVICE_TYPE:
        for name in ("slug", "model"):
            yield (
                (name, row.get("manufacturer"), row.get(name)),
                {"__all__": [f"Device type with this Manufacturer and {name} already exists."]},
            )
    elif kind is VLAN_GROUP and row.get("scope_id") is not None:
        for name in ("slug", "name"):
            yield (
                (name, row.get("scope_type"), row.get("scope_id"), row.get(name)),
                {"__all__": ["VLAN group with this scope already exists."]},
            )
    elif kind is VLAN and row.get("group") is not None:
        yield (
            ("vid", row.get("group"), row.get("vid")),
            {"__all__": ["VLAN with this Group and VLAN ID already exists."]},
        )
        yield (
            ("name", row.get("group"), row.get("name")),
            {"__all__": ["VLAN with this Group and Name already exists."]},
        )
    elif kind is DEVICE:
        key = (row.get("site"), row.get("tenant"), str(row.get("name")).lower())
        yield key, {"__all__": ["Device name must be unique per site and tenant."]}
    elif kind is INTERFACE:
        yield (row.get("device"), row.get("name")), {"__all__": ["Interface with this Device and Name already exists."]}
    elif kind is CABLE:
        for end in cable_ends(row):
            yield end, {"__all__": [f"Duplicate termination found for {end[0]} {end[1]}"]}
    elif kind is IP_ADDRESS:
        host = str(row.get("address")).split("/")[0]
        yield (host, row.get("vrf")), {"address": [f"Duplicate IP address found in global table: {row.get('address')}"]}


def weak_conflict(kind: Kind, row: Row, others: Iterable[Row]) -> Errors:
    """A duplicate that NetBox looks for before it saves, with no lock and no constraint behind it."""
    if kind is PREFIX and any(
        other.get("prefix") == row.get("prefix") and other.get("vrf") == row.get("vrf") for other in others
    ):
        return {"prefix": [f"Duplicate prefix found in global table: {row.get('prefix')}"]}
    if kind is IP_RANGE:
        start, end = _span(row)
        for other in others:
            first, last = _span(other)
            if first.version == start.version and int(first) <= int(end) and int(start) <= int(last):
                return {"__all__": [f"Defined addresses overlap with range {first}-{last} in VRF None"]}
    return {}


def _span(
    row: Row,
) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ipaddress.IPv4Address | ipaddress.IPv6Address]:
    return ipaddress.ip_interface(str(row["start_address"])).ip, ipaddress.ip_interface(str(row["end_address"])).ip


def model_errors(kind: Kind, row: Row, tables: Tables) -> Errors:
    """Rules over several fields."""
    rule = _RULES.get(kind)
    return rule(row, tables) if rule else {}


def _vlan(row: Row, _: Tables) -> Errors:
    vid = row.get("vid")
    return (
        {}
        if isinstance(vid, int) and 1 <= vid <= 4094
        else {"vid": ["Ensure this value is less than or equal to 4094."]}
    )


def _prefix(row: Row, _: Tables) -> Errors:
    try:
        ipaddress.ip_network(str(row.get("prefix")))
    except ValueError:
        return {"prefix": [f"{row.get('prefix')} is not a valid prefix."]}
    return _scope(row)


def _scope(row: Row) -> Errors:
    if (row.get("scope_type") is None) != (row.get("scope_id") is None):
        return {"scope_id": ["Please select a scope." if row.get("scope_id") is None else "scope_type is missing."]}
    return {}


def _interface(row: Row, _: Tables) -> Errors:
    if row.get("mode") in (None, "") and (row.get("untagged_vlan") or row.get("tagged_vlans")):
        return {"untagged_vlan": ["Interface mode does not support an untagged vlan."]}
    return {}


def _device(row: Row, tables: Tables) -> Errors:
    if row.get("position") and not row.get("face"):
        return {"face": ["Must specify rack face when defining rack position."]}
    for name in ("primary_ip4", "primary_ip6"):
        address = row.get(name)
        held = tables[IP_ADDRESS].get(address) if isinstance(address, int) else None
        interface = held.get("assigned_object_id") if held else None
        holder = tables[INTERFACE].get(interface) if isinstance(interface, int) else None
        if address is not None and (holder is None or holder.get("device") != row.get("id")):
            return {name: [f"The specified IP address ({address}) is not assigned to this device."]}
    return _rack_unit(row, tables) if row.get("rack") and row.get("position") else {}


def _rack_unit(row: Row, tables: Tables) -> Errors:
    """No two devices in one rack unit; what has no height fills none."""
    start, end = _units(row, tables)
    for key, other in tables[DEVICE].items():
        if key == row.get("id") or other.get("rack") != row.get("rack") or not other.get("position"):
            continue
        first, last = _units(other, tables)
        if first < end and start < last:
            return {"position": [f"U{row.get('position')} is already occupied or does not have sufficient space"]}
    return {}


def _units(row: Row, tables: Tables) -> tuple[float, float]:
    position, model = row.get("position"), row.get("device_type")
    kind = tables[DEVICE_TYPE].get(model) if isinstance(model, int) else None
    height = kind.get("u_height") if kind else 1
    assert isinstance(position, (int, float))
    assert isinstance(height, (int, float))
    return position, position + height


def _assigned(row: Row, tables: Tables) -> Errors:
    interface = row.get("assigned_object_id")
    if isinstance(interface, int) and interface not in tables[INTERFACE]:
        return {"assigned_object_id": [f"Invalid object: {interface}"]}
    return {}


def _address(row: Row, tables: Tables) -> Errors:
    interface = row.get("assigned_object_id")
    held = tables[INTERFACE].get(interface) if isinstance(interface, int) else None
    for key, device in tables[DEVICE].items():
        if (
            row.get("id") in (device.get("primary_ip4"), device.get("primary_ip6"))
            and (held or {}).get("device") != key
        ):
            text = "Cannot reassign IP address while it is designated as the primary IP for the parent object"
            return {"__all__": [text]}
    return _assigned(row, tables)


def _mac(row: Row, tables: Tables) -> Errors:
    for key, interface in tables[INTERFACE].items():
        if interface.get("primary_mac_address") == row.get("id") and row.get("assigned_object_id") != key:
            return {"__all__": ["Cannot reassign MAC Address while it is designated as the primary MAC for an object"]}
    return _assigned(row, tables)


_RULES: dict[Kind, Callable[[Row, Tables], Errors]] = {
    VLAN: _vlan,
    PREFIX: _prefix,
    VLAN_GROUP: lambda row, _: _scope(row),
    INTERFACE: _interface,
    DEVICE: _device,
    IP_ADDRESS: _address,
    MAC_ADDRESS: _mac,
}
