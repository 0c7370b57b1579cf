"""Records, marks and values in words, for reports and messages."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.store import Record, identity

_NOUNS = {"site": "site", "vlan": "VLAN", "device": "device"}


def describe(kind: Kind, record: Record) -> str:
    """A record in words."""
    return f"{kind.name} {record.get('display') or identity(record)}"


def unit_of(mark: str) -> str:
    """Mark of the unit that a mark lies in: two words for a site's own, three for a VLAN's or device's."""
    words = mark.split("/", 3)
    return "/".join(words[: 2 if words[1:2] == ["site"] else 3])


def unit_words(mark: str) -> str:
    """The unit that a mark lies in, in words: `VLAN lab/edge-inference`."""
    site, _, rest = unit_of(mark).partition("/")
    stem, _, name = rest.partition("/")
    return f"{_NOUNS.get(stem, stem)} {site}/{name}" if name else f"{_NOUNS.get(stem, stem)} {site}"


def served_word(value: JsonValue) -> JsonValue:
    """A served value in a word: the slug, name or address of a related object, the bare value of a choice."""
    if isinstance(value, Mapping):
        for name in ("value", "slug", "name", "address", "mac_address", "display"):
            if name in value:
                return value[name]
        return None
    if isinstance(value, list):
        return [end_word(item) for item in value]
    return value


def site_word(name: str, word: JsonValue) -> JsonValue:
    """NetBox's word for a choice in the site file's."""
    return "trunk" if name == "mode" and word == "tagged" else word


def end_word(item: JsonValue) -> JsonValue:
    """What an end of a cable is at, or an address on: `tor-1 Ethernet5`."""
    if isinstance(item, Mapping) and isinstance(thing := item.get("object"), Mapping):
        device = thing.get("device")
        return f"{served_word(device)} {thing.get('name')}" if device else thing.get("name")
    return served_word(item)


def joined(path: str, name: str | None) -> str:
    """A property *name* under *path*."""
    if not name:
        return path
    return f"{path}.{name}" if path else name


def path_in_unit(unit_mark: str, record: Record) -> str:
    """Where a record that nothing wants any more stood in its unit: from its mark."""
    rest = (mark_of(record) or "").removeprefix(unit_mark).strip("/")
    stem, _, name = rest.partition("/")
    return {
        "prefix": f"prefixes[{name}]", "range": f"ranges[{name}]", "interface": f"interfaces[{name}]", "rack": f"racks[{name}]",
        "cable": f"interfaces[{name}].cable", "mac": f"interfaces[{name}].mac", "device-type": f"device_types[{name.rpartition('/')[2]}]",
        "device-role": f"device_roles[{name}]", "platform": f"platforms[{name}]", "vlan-role": f"vlan_roles[{name}]", "region": "region",
        "address": f"interfaces[{_holder(record)}].addresses[{name}]",
    }.get(stem, rest)  # fmt: skip


def _holder(record: Record) -> JsonValue:
    thing = record.get("assigned_object")
    return thing.get("name") if isinstance(thing, Mapping) else "?"
