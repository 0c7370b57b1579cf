"""Which record is the one that is wanted, may we have it, and what about it differs. Pure over a `World`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import ADOPTED, CABLE, IP_ADDRESS, MARK, TAG, VLAN, Kind
from pinion.drivers.netbox.plain import (
    TOGETHER,
    cable_ends,
    custom_field,
    is_tagged,
    mark_of,
    natural_keys,
    page,
    plain,
    plain_record,
    same,
)
from pinion.drivers.netbox.results import Conflict
from pinion.drivers.netbox.store import Body, Record, identity
from pinion.drivers.netbox.wants import Want
from pinion.drivers.netbox.world import World


@dataclass(slots=True)
class Match:
    """The record for a want. *take*: it is not marked as ours yet and may be. *used*: shared and not ours, left as it is.

    *doubles*: further records of ours with the same mark, to be deleted. *differing*: names of the fields found to differ.
    """

    record: Record
    take: bool = False
    used: bool = False
    doubles: tuple[Record, ...] = ()
    differing: set[str] = field(default_factory=set)


def candidates(world: World, kind: Kind, fields: Mapping[str, JsonValue]) -> list[Record]:
    """Records that share a natural key with *fields* (those whose fields are all given), lowest id first."""
    keys = natural_keys(kind, fields)
    if kind is VLAN:
        keys += natural_keys(kind, {**fields, "group": None})[-1:]  # the same VLAN of the site, in no group
    keys = [key for key in keys if not _unknown(kind, key, fields)]
    return world.keyed(kind, keys)


def _unknown(kind: Kind, key: tuple[JsonValue, ...], fields: Mapping[str, JsonValue]) -> bool:
    """Whether a key names something that isn't there yet (a preview's negative id) or a field that was not given."""
    if any(isinstance(part, int) and part < 0 for part in key[1:]):
        return True
    if kind is CABLE:
        return False
    return any(name not in fields for name in str(key[0]).split(","))


def match(
    world: World, want: Want, body: Mapping[str, JsonValue], *, adopt: bool, inside: object
) -> Match | Conflict | None:
    """The record for *want*, None when there is none, a conflict when it is not ours to have. *inside*: id of the record around it."""
    ours = world.marked(want.kind, want.mark)
    if ours:
        return Match(ours[0], doubles=tuple(ours[1:]))
    hits = candidates(world, want.kind, body)
    if not hits:
        return None
    if want.shared:
        return Match(hits[0], used=True)
    if len(hits) > 1 and want.kind is not CABLE:
        return Conflict(want.label, page(hits[0]), f"{len(hits)} objects answer to it; make it one of them by hand")
    hit = hits[0]
    if (other := mark_of(hit)) is not None:
        return Conflict(want.label, page(hit), f"is managed by Pinion already, as {other}")
    if want.kind is CABLE:
        if len(hits) == 1 and _same_ends(hit, body):
            return Match(hit, take=True)
        return Conflict(want.label, page(hit), f"one of its ports is taken by {hit.get('display')}")
    if want.inside is not None and _lies_inside(want.kind, hit, inside, body):
        return Match(hit, take=True)
    if adopt:
        return Match(hit, take=True)
    return Conflict(want.label, page(hit), "exists already and is not Pinion's; set pinion:adopt to take it over")


def _same_ends(record: Record, body: Mapping[str, JsonValue]) -> bool:
    return sorted(map(repr, cable_ends(plain_record(CABLE, record)))) == sorted(map(repr, cable_ends(body)))


def _lies_inside(kind: Kind, record: Record, inside: object, body: Mapping[str, JsonValue]) -> bool:
    if kind is IP_ADDRESS:
        return record.get("assigned_object_id") == inside and record.get("assigned_object_type") == body.get(
            "assigned_object_type"
        )
    return True  # the natural keys of interfaces and MAC addresses hold what they lie in


def compare(want: Want, body: Mapping[str, JsonValue], found: Match) -> Body:
    """The patch that makes the record as wanted; empty when nothing differs. Notes what differs in *found*."""
    if found.used:
        return {}
    record = found.record
    patch: Body = {}
    for name, wanted in body.items():
        if not _equal(want.kind, name, record, wanted, body):
            found.differing.add(name)
            patch[name] = wanted
    for group in TOGETHER:
        if any(name in patch for name in group):
            patch.update({name: body[name] for name in group if name in body})
    if not is_tagged(record):
        patch["add_tags"] = [{"slug": TAG}]
    if found.take:
        patch["custom_fields"] = {MARK: want.mark, ADOPTED: True}
    return patch


def _equal(kind: Kind, name: str, record: Record, wanted: JsonValue, body: Mapping[str, JsonValue]) -> bool:
    if kind is CABLE and name in ("a_terminations", "b_terminations"):
        return _same_ends(record, body)  # which side is a is a matter of taste
    return same(plain(record.get(name)), wanted)


def is_adopted(record: Record) -> bool:
    """Whether the record was there before us."""
    return custom_field(record, ADOPTED) is True


def describe(kind: Kind, record: Record) -> str:
    """A record in words, for reports."""
    return f"{kind.name} {record.get('display') or identity(record)}"
