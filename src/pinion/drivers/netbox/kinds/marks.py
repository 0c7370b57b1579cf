"""How Pinion knows its own in NetBox: a tag, and two custom fields.

`pinion_id` names the object in words of the site (`lab/device/pi-01/interface/eth0`), `pinion_adopted` is true for what was there before
and must outlive us. Marks of one unit begin with the unit's mark and a slash, so that the whole unit can be asked for, and what is no
longer wanted can be found, without any state of our own.
"""

from __future__ import annotations

from pydantic import JsonValue

from pinion.drivers.netbox.kinds.values import Body, Record, identity, plain

TAG = "pinion"
MARK = "pinion_id"
ADOPTED = "pinion_adopted"

_NOUNS = {"site": "site", "vlan": "VLAN", "device": "device"}


def custom_field(record: Record, name: str) -> JsonValue:
    """A custom field of a record in plain form, None when it has none."""
    fields = record.get("custom_fields")
    return plain(fields.get(name)) if isinstance(fields, dict) else None


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
    return isinstance(tags, list) and any(isinstance(tag, dict) and tag.get("slug") == TAG for tag in tags)


def is_adopted(record: Record) -> bool:
    """Whether the record was there before us."""
    return custom_field(record, ADOPTED) is True


def release(record: Record) -> Body:
    """The patch that takes our marks off an adopted record."""
    return {"id": identity(record), "remove_tags": [{"slug": TAG}], "custom_fields": {MARK: None, ADOPTED: None}}


def site_of(mark: str) -> str:
    """The site that a mark belongs to."""
    return mark.split("/", 1)[0]


def is_within(mark: str, unit: str) -> bool:
    """Whether a mark is that of *unit* or of a part of it."""
    return mark == unit or mark.startswith(f"{unit}/")


def is_of_site(record: Record, mark: str) -> bool:
    """Whether a record is Pinion's and of the same site as *mark*."""
    found = mark_of(record)
    return found is not None and site_of(found) == site_of(mark)


def unit_of(mark: str) -> str:
    """Mark of the unit that a mark lies in: two words for a site's own, three for a VLAN's or device's."""
    words = mark.split("/", 3)
    return "/".join(words[: 2 if words[1:2] == ["site"] else 3])


def unit_words(mark: str) -> str:
    """The unit that a mark lies in, in words: `VLAN lab/edge-inference`."""
    site, _, rest = unit_of(mark).partition("/")
    stem, _, name = rest.partition("/")
    return f"{_NOUNS.get(stem, stem)} {site}" + (f"/{name}" if name else "")
