"""Values as NetBox serves them, as it takes them, and as a person reads them.

NetBox serves a related object as a nested object, a choice as `{"value", "label"}` and a list of objects as nested objects, but takes
ids and bare values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from pydantic import JsonValue

#: A record as NetBox serves it: related objects and choices are nested.
Record: TypeAlias = dict[str, JsonValue]
#: The body of a write: related objects are ids, choices bare values.
Body: TypeAlias = dict[str, JsonValue]


def identity(record: Mapping[str, JsonValue]) -> int:
    """The id of a record that a server sent. `ValueError` when it has none."""
    found = record.get("id")
    if not isinstance(found, int):
        raise ValueError("a record without id")  # noqa: TRY004 - the server's fault, not the caller's type
    return found


def etag(record: Mapping[str, JsonValue]) -> str | None:
    """The weak ETag that NetBox computes for a record: `last_updated` in UTC. A list does not send it."""
    moment = record.get("last_updated")
    return f'W/"{datetime.fromisoformat(moment).astimezone(UTC).isoformat()}"' if isinstance(moment, str) else None


def page(record: Mapping[str, JsonValue]) -> str | None:
    """The record's page in the web interface."""
    found = record.get("display_url") or record.get("url")
    return found if isinstance(found, str) else None


def plain(value: JsonValue) -> JsonValue:
    """One served value as it would be written."""
    if isinstance(value, dict):
        if "value" in value and "label" in value:
            return value["value"]
        return value["id"] if "id" in value else dict(value)
    if isinstance(value, list):
        ends = [one for one in value if isinstance(one, dict) and "object_type" in one and "object_id" in one]
        if value and len(ends) == len(value):
            return [{"object_type": one["object_type"], "object_id": one["object_id"]} for one in ends]
        items = [plain(item) for item in value]
        return sorted(items, key=repr) if all(isinstance(item, int) for item in items) else items
    return value


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two plain values mean the same to NetBox: an empty choice reads back as null."""
    return one == other or (one in (None, "") and other in (None, ""))


def word(value: JsonValue) -> JsonValue:
    """A served value in a word: the slug, name or address of a related object, the bare value of a choice."""
    if isinstance(value, dict):
        if isinstance(thing := value.get("object"), dict):  # an end of a cable: `tor-1 Ethernet5`
            device = thing.get("device")
            return f"{word(device)} {thing.get('name')}" if device else thing.get("name")
        names = ("value", "slug", "name", "address", "mac_address", "display")
        return next((value[name] for name in names if name in value), None)
    return [word(item) for item in value] if isinstance(value, list) else value


def cable_ends(fields: Mapping[str, JsonValue]) -> list[tuple[JsonValue, JsonValue]]:
    """Both ends of a cable in plain form, as (type, id)."""
    sides = [fields.get(side) for side in ("a_terminations", "b_terminations")]
    items = [item for side in sides if isinstance(side, list) for item in side]
    return [(item.get("object_type"), item.get("object_id")) for item in items if isinstance(item, dict)]
