"""From records back to units: what NetBox holds now, in the words in which it was wished for.

What was changed by hand may be outside what a wish may say (a VLAN's name with a slash), so units are built here without validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import JsonValue

from pinion.drivers.netbox.desired import (
    CableTo,
    Desired,
    DeviceRecord,
    DeviceType,
    Interface,
    IpRange,
    Named,
    Prefix,
    Rack,
    SiteRecords,
    VlanRecord,
)
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    DEVICE_ROLE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MANUFACTURER,
    PLATFORM,
    PREFIX,
    RACK,
    SITE,
    VLAN,
    VLAN_ROLE,
    Kind,
)
from pinion.drivers.netbox.matching import is_adopted
from pinion.drivers.netbox.plain import mark_of, page, plain
from pinion.drivers.netbox.results import Observed, Owner
from pinion.drivers.netbox.store import Record, identity
from pinion.drivers.netbox.words import describe, served_word
from pinion.drivers.netbox.world import World

Parts = Mapping[Kind, Sequence[Record]]
M = TypeVar("M", bound=Desired)

_MODES = {"access": "access", "tagged": "trunk", "tagged-all": "trunk", "q-in-q": "trunk"}
_IN_SERVICE = {"active", "connected"}


def _build(model: type[M], /, **fields: object) -> M:
    return model.model_construct(**fields)  # type: ignore[arg-type]  # pydantic: any field by name


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _word(record: Record, name: str) -> str | None:
    value = served_word(record.get(name))
    return value if isinstance(value, str) else None


def _number(record: Record, name: str) -> int:
    value = plain(record.get(name))
    return value if isinstance(value, int) else 0


def _span(record: Record) -> str:
    """Name of a range: the end of its mark, or its description."""
    mark = mark_of(record)
    return mark.rpartition("/range/")[2] if mark else _text(record, "description") or _text(record, "start_address")


def observe_site(key: str, parts: Parts, world: World) -> Observed[SiteRecords]:
    """A site's unit from its records."""
    del world
    main = parts[SITE][0]
    types = [
        _build(
            DeviceType,
            manufacturer=_maker(one, parts),
            model=_text(one, "model"),
            slug=_text(one, "slug"),
            units=float(_number_or_float(one, "u_height")),
        )
        for one in parts[DEVICE_TYPE]
    ]
    record = _build(
        SiteRecords,
        site=_text(main, "slug"),
        name=_text(main, "name"),
        region=_word(main, "region"),
        description=_text(main, "description"),
        racks=tuple(
            _build(Rack, name=_text(one, "name"), units=_number(one, "u_height"), description=_text(one, "description"))
            for one in parts[RACK]
        ),
        device_types=tuple(types),
        device_roles=_named(parts[DEVICE_ROLE]),
        platforms=_named(parts[PLATFORM]),
        vlan_roles=_named(parts[VLAN_ROLE]),
    )
    ids = {f"rack {_text(one, 'name')}": identity(one) for one in parts[RACK]}
    ids |= {
        f"{kind.name} {_text(one, 'slug')}": identity(one)
        for kind in (DEVICE_TYPE, DEVICE_ROLE, PLATFORM, VLAN_ROLE)
        for one in parts[kind]
    }
    return Observed(
        key, record, {"site": identity(main), **ids}, page(main) or "", _owner(main, f"{key}/site"), _other_drift(parts)
    )


def _maker(record: Record, parts: Parts) -> str:
    nested = record.get("manufacturer")
    if isinstance(nested, Mapping):
        full = next((one for one in parts[MANUFACTURER] if identity(one) == nested.get("id")), nested)
        return str(full.get("name"))
    return ""


def _number_or_float(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _named(records: Sequence[Record]) -> tuple[Named, ...]:
    return tuple(_build(Named, slug=_text(one, "slug"), name=_text(one, "name")) for one in records)


def observe_vlan(key: str, parts: Parts, world: World) -> Observed[VlanRecord]:
    """A VLAN's unit from its records."""
    del world
    site, _, name = key.partition("/")
    main = parts[VLAN][0]
    record = _build(
        VlanRecord,
        site=site,
        name=_text(main, "name"),
        vid=_number(main, "vid"),
        role=_word(main, "role"),
        description=_text(main, "description"),
        prefixes=tuple(
            _build(Prefix, prefix=_text(one, "prefix"), description=_text(one, "description")) for one in parts[PREFIX]
        ),
        ranges=tuple(
            _build(
                IpRange,
                name=_span(one),
                start=_text(one, "start_address"),
                end=_text(one, "end_address"),
                description=_text(one, "description"),
            )
            for one in parts[IP_RANGE]
        ),
    )
    ids = {f"prefix {_text(one, 'prefix')}": identity(one) for one in parts[PREFIX]}
    ids |= {f"range {_span(one)}": identity(one) for one in parts[IP_RANGE]}
    drift = _other_drift(parts)
    if mark_of(main) is not None and "group" in main and main["group"] is None:
        drift += (f"{describe(VLAN, main)} is in no VLAN group",)
    drift += tuple(
        f"{describe(PREFIX, one)} is not in VLAN {name} any more"
        for one in parts[PREFIX]
        if plain(one.get("vlan")) != identity(main)
    )
    drift += tuple(
        f"{describe(PREFIX, one)} has another scope than the site"
        for one in parts[PREFIX]
        if one.get("scope_type") != "dcim.site"
    )
    return Observed(
        key, record, {"vlan": identity(main), **ids}, page(main) or "", _owner(main, f"{site}/vlan/{name}"), drift
    )


def observe_device(key: str, parts: Parts, world: World) -> Observed[DeviceRecord]:
    """A device's unit from its records."""
    site, _, name = key.partition("/")
    main = parts[DEVICE][0]
    addresses: dict[int, list[str]] = {}
    for one in parts[IP_ADDRESS]:
        addresses.setdefault(_number(one, "assigned_object_id"), []).append(_text(one, "address"))
    cables = _cables(parts[CABLE], identity(main))
    interfaces = tuple(
        _interface(one, addresses.get(identity(one), []), cables.get(identity(one)), world) for one in parts[INTERFACE]
    )
    kind = main.get("device_type")
    maker = kind.get("manufacturer") if isinstance(kind, Mapping) else None
    record = _build(
        DeviceRecord,
        site=_word(main, "site") or site,
        name=_text(main, "name"),
        role=_word(main, "role") or "",
        manufacturer=served_word(maker) or "",
        device_type=_word(main, "device_type") or "",
        platform=_word(main, "platform"),
        rack=_word(main, "rack"),
        position=main.get("position"),
        status=str(plain(main.get("status")) or ""),
        serial=_text(main, "serial"),
        description=_text(main, "description"),
        interfaces=interfaces,
        primary_address=_word(main, "primary_ip4") or _word(main, "primary_ip6"),
    )
    ids = {"device": identity(main)} | {f"interface {_text(one, 'name')}": identity(one) for one in parts[INTERFACE]}
    ids |= {f"address {_text(one, 'address')}": identity(one) for one in parts[IP_ADDRESS]}
    ids |= {
        f"cable {(mark_of(one) or '').rpartition('/cable/')[2] or identity(one)}": identity(one) for one in parts[CABLE]
    }
    loose = tuple(
        f"{describe(IP_ADDRESS, one)} is on no interface of {name} any more"
        for one in parts[IP_ADDRESS]
        if _number(one, "assigned_object_id") not in {identity(interface) for interface in parts[INTERFACE]}
    )
    return Observed(
        key, record, ids, page(main) or "", _owner(main, f"{site}/device/{name}"), _other_drift(parts) + loose
    )


def _interface(record: Record, addresses: Sequence[str], far: CableTo | None, world: World) -> Interface:
    tagged = record.get("tagged_vlans")
    return _build(
        Interface,
        name=_text(record, "name"),
        type=str(plain(record.get("type"))),
        enabled=bool(record.get("enabled")),
        management_only=bool(record.get("mgmt_only")),
        mac=_mac(record),
        mtu=record.get("mtu"),
        description=_text(record, "description"),
        mode=_MODES.get(str(plain(record.get("mode")))),
        untagged_vlan=_vlan_name(record.get("untagged_vlan"), world),
        tagged_vlans=tuple(_vlan_name(one, world) or "" for one in tagged) if isinstance(tagged, list) else (),
        addresses=tuple(addresses),
        cable=far,
    )


def _mac(record: Record) -> str | None:
    nested = record.get("primary_mac_address")
    if isinstance(nested, Mapping):
        value = nested.get("mac_address") or nested.get("display")
        return value if isinstance(value, str) else None
    return None


def _vlan_name(nested: JsonValue, world: World) -> str | None:
    """A VLAN by its name in the site file, not by what somebody renamed it to: that is the VLAN's drift, not each port's."""
    if not isinstance(nested, Mapping):
        return None
    whole = world.get(VLAN, identity(nested))
    mark = mark_of(whole) if whole else None
    return mark.rpartition("/vlan/")[2] if mark else str(nested.get("name"))


def _cables(records: Sequence[Record], device: int) -> dict[int, CableTo]:
    """Far ends of a device's cables, by the id of its own interface. One whose far end is gone is no cable to anything."""
    found: dict[int, CableTo] = {}
    for record in records:
        ends = [_end(record, side) for side in ("a_terminations", "b_terminations")]
        for mine, far in (ends, ends[::-1]):
            if mine and far and mine[0] == device and mine[1] not in found:
                found[mine[1]] = _build(CableTo, device=far[2], interface=far[3])
                break
    return found


def _end(record: Record, side: str) -> tuple[int, int, str, str] | None:
    """One end: device id, interface id, device name, interface name."""
    ends = record.get(side)
    if not isinstance(ends, list) or len(ends) != 1 or not isinstance(ends[0], Mapping):
        return None
    thing = ends[0].get("object")
    device = thing.get("device") if isinstance(thing, Mapping) else None
    if not isinstance(thing, Mapping) or not isinstance(device, Mapping):
        return None
    return identity(device), identity(thing), str(device.get("name")), str(thing.get("name"))


def _owner(main: Record, mark: str) -> Owner:
    if mark_of(main) != mark:
        return "foreign"
    return "adopted" if is_adopted(main) else "created"


def _other_drift(parts: Parts) -> tuple[str, ...]:
    """What is wrong with records of ours that the unit's fields do not show."""
    found = []
    for kind, records in parts.items():
        for record in records:
            if mark_of(record) is None:
                continue
            status = plain(record.get("status"))
            # That of a device is a field of its unit.
            if kind is not DEVICE and status is not None and status not in _IN_SERVICE:
                found.append(f"{describe(kind, record)} has status {status}")
    return tuple(found)
