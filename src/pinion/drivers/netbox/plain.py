"""Records in the shape of a write, so that what is there and what is wanted can be compared field by field; and natural keys.

NetBox serves a related object as a nested object, a choice as `{"value", "label"}` and a list of objects as nested objects, but takes
ids and bare values. A select custom field is served nested and must be sent bare, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MAC_ADDRESS,
    MARK,
    PREFIX,
    RACK,
    SITE,
    TAG,
    VLAN,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.store import Record

#: Fields that NetBox wants changed together: one alone is refused, or quietly means something else.
TOGETHER = (
    ("scope_type", "scope_id"),
    ("assigned_object_type", "assigned_object_id"),
    ("mode", "untagged_vlan", "tagged_vlans"),
    ("rack", "position", "face"),
)


def plain(value: JsonValue) -> JsonValue:
    """One served value as it would be written."""
    if isinstance(value, Mapping):
        if "value" in value and "label" in value:
            return value["value"]
        if "id" in value:
            return value["id"]
        return dict(value)
    if isinstance(value, list):
        if value and all(isinstance(item, Mapping) and "object_type" in item and "object_id" in item for item in value):
            return [
                {"object_type": item["object_type"], "object_id": item["object_id"]}
                for item in value
                if isinstance(item, Mapping)
            ]
        items = [plain(item) for item in value]
        return sorted(items, key=repr) if all(isinstance(item, int) for item in items) else items
    return value


def plain_record(kind: Kind, record: Record) -> dict[str, JsonValue]:
    """The writable fields of a record, as they would be written."""
    return {name: plain(record[name]) for name in kind.fields if name in record}


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two plain values mean the same to NetBox: an empty choice reads back as null."""
    if one in (None, "") and other in (None, ""):
        return True
    return one == other


def custom_field(record: Record, name: str) -> JsonValue:
    """A custom field of a record in plain form, None when it has none."""
    fields = record.get("custom_fields")
    return plain(fields.get(name)) if isinstance(fields, Mapping) else None


def mark_of(record: Record) -> str | None:
    """The identity that Pinion gave the record, None when it is not ours: that takes the tag, too."""
    return stated_mark(record) if is_tagged(record) else None


def stated_mark(record: Record) -> str | None:
    """What the custom field says, whether or not the tag is there."""
    found = custom_field(record, MARK)
    return found if isinstance(found, str) and found else None


def is_tagged(record: Record) -> bool:
    """Whether the record carries the tag."""
    tags = record.get("tags")
    return isinstance(tags, list) and any(isinstance(tag, Mapping) and tag.get("slug") == TAG for tag in tags)


def page(record: Record) -> str | None:
    """The record's page in the web interface."""
    found = record.get("display_url") or record.get("url")
    return found if isinstance(found, str) else None


Key = tuple[JsonValue, ...]


def natural_keys(kind: Kind, fields: Mapping[str, JsonValue]) -> list[Key]:
    """The natural keys of a record in plain form: two of one kind that share any can't both exist (or must not)."""

    def key(*names: str) -> Key:
        return (",".join(names), *(fields.get(name) for name in names))

    if kind is VLAN:  # one that is in no group is known by its site
        loose = [key("site", "vid")] if fields.get("group") is None else []
        return [key("group", "vid"), key("group", "name"), *loose]
    if kind is SITE:
        return [key("slug"), key("name")]
    if kind is VLAN_GROUP:
        return [key("slug", "scope_type", "scope_id")]
    if kind is DEVICE_TYPE:
        return [key("manufacturer", "slug")]
    if kind is RACK:
        return [key("site", "name")]
    if kind is PREFIX:
        return [key("prefix", "vrf")]
    if kind is IP_RANGE:
        return [key("start_address", "end_address", "vrf")]
    if kind is DEVICE:  # unique without regard to case, per site and tenant
        return [("site,name", fields.get("site"), str(fields.get("name")).casefold())]
    if kind is INTERFACE:
        return [key("device", "name")]
    if kind is MAC_ADDRESS:
        return [key("mac_address", "assigned_object_id")]
    if kind is IP_ADDRESS:  # whatever the mask
        return [("address,vrf", str(fields.get("address")).split("/")[0], fields.get("vrf"))]
    if kind is CABLE:
        return [("end", *end) for end in cable_ends(fields)]
    return [key("slug")]


def cable_ends(fields: Mapping[str, JsonValue]) -> list[tuple[JsonValue, JsonValue]]:
    """Both ends of a cable in plain form, as (type, id)."""
    sides = [fields.get(side) for side in ("a_terminations", "b_terminations")]
    items = [item for side in sides if isinstance(side, list) for item in side]
    return [(item.get("object_type"), item.get("object_id")) for item in items if isinstance(item, Mapping)]
