"""Which record is the one that is wanted, may we have it, and what about it differs. Pure over a `World`.

A record of ours that carries the mark of another unit of the same site is the wanted one's when it answers to its natural key: the
site file is valid, so no two units want the same VID, prefix, address or port, and whoever asks for it now is its owner.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import ADOPTED, CABLE, DEVICE, IP_ADDRESS, IP_RANGE, MARK, TAG, VLAN, Kind
from pinion.drivers.netbox.plain import (
    TOGETHER,
    Key,
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
from pinion.drivers.netbox.words import unit_of, unit_words
from pinion.drivers.netbox.world import World

#: Main objects of units: what refers to them does so by their unit's name, so a living unit keeps its own.
_MAIN = frozenset({VLAN, DEVICE})


@dataclass(slots=True)
class Match:
    """The record for a want. *take*: it is not marked as ours yet and may be. *used*: shared and not ours, left as it is.

    *predecessor*: it carries this mark of another unit of the site. *displaced*: the record that carries the want's own mark and is to
    get the predecessor's in exchange. *doubles*: further records of ours with the same mark, to be deleted. *differing*: names of the
    fields found to differ.
    """

    record: Record
    take: bool = False
    used: bool = False
    predecessor: str | None = None
    displaced: Record | None = None
    doubles: tuple[Record, ...] = ()
    differing: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Others:
    """What the rest of the run says about the records of one kind.

    *bodies*: what each want of the batch asks for, by mark. *alive*: marks of units that are known to be in the site file. *claimed*:
    mark of the want that got a record of another one, by id. *gone*: ids of records that a preview takes for removed. *spans*: ranges by
    site that no want of the batch keeps, as `overlapping` found them.
    """

    bodies: dict[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    alive: frozenset[str] = frozenset()
    claimed: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    spans: dict[str, list[tuple[int, int, int, Record]]] = field(default_factory=dict)


def candidates(world: World, kind: Kind, fields: Mapping[str, JsonValue]) -> list[Record]:
    """Records that share a natural key with *fields* (those whose fields are all given), lowest id first."""
    return world.keyed(kind, _keys(kind, fields))


def _keys(kind: Kind, fields: Mapping[str, JsonValue]) -> list[Key]:
    keys = natural_keys(kind, fields)
    if kind is VLAN:
        keys += natural_keys(kind, {**fields, "group": None})[-1:]  # the same VLAN of the site, in no group
    return [key for key in keys if not _unknown(kind, key, fields)]


def _unknown(kind: Kind, key: Key, fields: Mapping[str, JsonValue]) -> bool:
    """Whether a key names something that isn't there yet (a preview's negative id) or a field that was not given."""
    if any(isinstance(part, int) and part < 0 for part in key[1:]):
        return True
    if kind is CABLE:
        return False
    return any(name not in fields for name in str(key[0]).split(","))


def is_at_home(kind: Kind, record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Whether a record has every natural key of *body* already: then nothing of another can be in its way."""
    return set(natural_keys(kind, body)) <= set(natural_keys(kind, plain_record(kind, record)))


def own(world: World, want: Want, others: Others) -> list[Record]:
    """The records that carry the want's mark and that no other want of the batch got."""
    found = world.marked(want.kind, want.mark)
    return [one for one in found if others.claimed.get(identity(one), want.mark) == want.mark]


def match(
    world: World, want: Want, body: Mapping[str, JsonValue], *, adopt: bool, inside: object, others: Others
) -> Match | Conflict | None:
    """The record for *want*, None when there is none, a conflict when it is not ours to have. *inside*: id of the record around it."""
    mine = own(world, want, others)
    numbers = {identity(one) for one in mine} | others.gone
    hits = [one for one in candidates(world, want.kind, body) if identity(one) not in numbers]
    hits = [one for one in hits if others.claimed.get(identity(one), want.mark) == want.mark]
    if want.shared:
        return _shared(mine, hits)
    theirs = [one for one in hits if is_of_site(one, want.mark)]
    if mine:
        if want.kind not in (*_MAIN, CABLE) and (holder := _successor(want, body, theirs, others)) is not None:
            if isinstance(holder, Conflict):
                return holder
            return Match(holder, predecessor=mark_of(holder), displaced=mine[0])
        return Match(mine[0], doubles=tuple(mine[1:]))
    if theirs and len(theirs) == len(hits):
        return _taken_over(want, body, theirs, others)
    if want.kind is IP_RANGE and not hits and (parts := overlapping(world, body, want.mark, others)):
        return Match(parts[0], predecessor=mark_of(parts[0]))
    return _not_marked(want, body, hits, adopt=adopt, inside=inside)


def is_of_site(record: Record, mark: str) -> bool:
    """Whether a record is Pinion's and of the same site as *mark*."""
    found = mark_of(record)
    return found is not None and found.split("/", 1)[0] == mark.split("/", 1)[0]


def _shared(mine: Sequence[Record], hits: Sequence[Record]) -> Match | None:
    if mine:
        return Match(mine[0], doubles=tuple(mine[1:]))
    return Match(hits[0], used=True) if hits else None


def _taken_over(
    want: Want, body: Mapping[str, JsonValue], theirs: Sequence[Record], others: Others
) -> Match | Conflict | None:
    """A record of another unit of the site. None when it only stands in the way: `handover` sees to that."""
    found = _successor(want, body, theirs, others)
    if found is None or isinstance(found, Conflict):
        return found
    twins = [one for one in theirs if one is not found and mark_of(one) == mark_of(found)]
    return Match(found, predecessor=mark_of(found), doubles=tuple(twins))


def _successor(
    want: Want, body: Mapping[str, JsonValue], theirs: Sequence[Record], others: Others
) -> Record | Conflict | None:
    """The record among *theirs* that *is* the wanted thing under another unit's name."""
    for record in theirs:
        mark = mark_of(record) or ""
        rival = others.bodies.get(mark)
        if rival is not None and set(_keys(want.kind, rival)) & set(_keys(want.kind, body)):
            return Conflict(want.label, page(record), f"{unit_words(mark)} wants it, too")
        if _is_same_thing(want.kind, record, body, rival is not None) and not (
            want.kind in _MAIN and unit_of(mark) in others.alive
        ):
            return record
    if want.kind is CABLE and len(theirs) == 1 and mark_of(theirs[0]) not in others.bodies:
        return theirs[0]  # it has one of the ports, so its other end moves
    return None


def _is_same_thing(kind: Kind, record: Record, body: Mapping[str, JsonValue], wanted: bool) -> bool:
    if kind is VLAN:
        return record.get("vid") == body.get("vid")
    if kind is CABLE:
        return not wanted and has_same_ends(record, body)
    return True


def _not_marked(
    want: Want, body: Mapping[str, JsonValue], hits: Sequence[Record], *, adopt: bool, inside: object
) -> Match | Conflict | None:
    if not hits:
        return None
    if len(hits) > 1 and want.kind is not CABLE:
        return Conflict(want.label, page(hits[0]), f"{len(hits)} objects answer to it; make it one of them by hand")
    hit = next((one for one in hits if not is_of_site(one, want.mark)), hits[0])
    if (other := mark_of(hit)) is not None:
        return Conflict(want.label, page(hit), f"is managed by Pinion already, as {other}")
    if want.kind is CABLE:
        if len(hits) == 1 and has_same_ends(hit, body):
            return Match(hit, take=True)
        return Conflict(want.label, page(hit), f"one of its ports is taken by {hit.get('display')}")
    if adopt or (want.inside is not None and _lies_inside(want.kind, hit, inside, body)):
        return Match(hit, take=True)
    return Conflict(want.label, page(hit), "exists already and is not Pinion's; set pinion:adopt to take it over")


def has_same_ends(record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Whether a cable joins what *body* says."""
    return sorted(map(repr, cable_ends(plain_record(CABLE, record)))) == sorted(map(repr, cable_ends(body)))


def overlapping(world: World, body: Mapping[str, JsonValue], mark: str, others: Others) -> list[Record]:
    """Ranges of the site that NetBox would not let stand beside the wanted one, and that no want of the batch keeps."""
    site = mark.split("/", 1)[0]
    if site not in others.spans:
        ranges = [one for one in world.beneath(IP_RANGE, site) if plain(one.get("vrf")) is None]
        others.spans[site] = [(*_span(one), one) for one in ranges if mark_of(one) not in others.bodies]
    version, start, end = _span(body)
    return [
        one
        for its_version, first, last, one in others.spans[site]
        if version == its_version and first <= end and start <= last and identity(one) not in others.gone
    ]


def _span(fields: Mapping[str, JsonValue]) -> tuple[int, int, int]:
    """IP version, first and last address of a range, as numbers."""
    start, end = (ipaddress.ip_interface(str(fields[name])) for name in ("start_address", "end_address"))
    return start.version, int(start.ip), int(end.ip)


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
    elif found.predecessor is not None:
        patch["custom_fields"] = {MARK: want.mark}  # and it stays adopted when it was
    return patch


def _equal(kind: Kind, name: str, record: Record, wanted: JsonValue, body: Mapping[str, JsonValue]) -> bool:
    if kind is CABLE and name in ("a_terminations", "b_terminations"):
        return has_same_ends(record, body)  # which side is a is a matter of taste
    return same(plain(record.get(name)), wanted)


def is_adopted(record: Record) -> bool:
    """Whether the record was there before us."""
    return custom_field(record, ADOPTED) is True
