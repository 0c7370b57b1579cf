"""Which record is the one that is wanted, may we have it, and what about it differs. Pure over a `View`.

A record of ours that carries the mark of another unit of the same site is the wanted one's when it answers to its natural key: the
site file is valid, so no two units want the same VID, prefix, address or port, and whoever asks for it now is its owner.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.errors import ExistsError
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import (
    ADOPTED,
    CABLE,
    DEVICE,
    IP_ADDRESS,
    IP_RANGE,
    MARK,
    TAG,
    TOGETHER,
    VLAN,
    Kind,
    Want,
)  # fmt: skip
from pinion.drivers.netbox.kinds.marks import is_of_site, is_tagged, mark_of, site_of, unit_of, unit_words
from pinion.drivers.netbox.kinds.values import Body, Record, cable_ends, identity, page, plain, same

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

    def leave(self, record: Record, mark: str) -> bool:
        """Whether no other want of the batch got the record."""
        return self.claimed.get(identity(record), mark) == mark


def candidates(view: View, kind: Kind, fields: Mapping[str, JsonValue]) -> list[Record]:
    """Records that share a natural key with *fields* (those whose fields are all given), lowest id first."""
    return view.keyed(kind, kind.sought_keys(fields))


def own(view: View, want: Want, others: Others) -> list[Record]:
    """The records that carry the want's mark and that no other want of the batch got."""
    return [one for one in view.marked(want.kind, want.mark) if others.leave(one, want.mark)]


def match(
    view: View, want: Want, body: Mapping[str, JsonValue], *, adopt: bool, others: Others
) -> Match | ExistsError | None:
    """The record for *want*, None when there is none, a conflict when it is not ours to have."""
    mine = own(view, want, others)
    not_for_us = {identity(one) for one in mine} | others.gone
    hits = [one for one in candidates(view, want.kind, body) if identity(one) not in not_for_us]
    hits = [one for one in hits if others.leave(one, want.mark)]
    if want.kind.shared and (mine or hits):
        return Match(mine[0], doubles=tuple(mine[1:])) if mine else Match(hits[0], used=True)
    theirs = [one for one in hits if is_of_site(one, want.mark)]
    if mine:
        if want.kind not in (*_MAIN, CABLE) and (holder := _successor(want, body, theirs, others)) is not None:
            if isinstance(holder, ExistsError):
                return holder
            return Match(holder, predecessor=mark_of(holder), displaced=mine[0])
        return Match(mine[0], doubles=tuple(mine[1:]))
    if theirs and len(theirs) == len(hits):  # None when it only stands in the way: `making_room` sees to that
        found = _successor(want, body, theirs, others)
        if found is None or isinstance(found, ExistsError):
            return found
        twins = [one for one in theirs if one is not found and mark_of(one) == mark_of(found)]
        return Match(found, predecessor=mark_of(found), doubles=tuple(twins))
    if want.kind is IP_RANGE and not hits and (parts := overlapping(view, body, want.mark, others)):
        return Match(parts[0], predecessor=mark_of(parts[0]))
    return _not_marked(want, body, hits, adopt=adopt) if hits else None


def _successor(
    want: Want, body: Mapping[str, JsonValue], theirs: Sequence[Record], others: Others
) -> Record | ExistsError | None:
    """The record among *theirs* that *is* the wanted thing under another unit's name."""
    for record in theirs:
        mark = mark_of(record) or ""
        rival = others.bodies.get(mark)
        if rival is not None and set(want.kind.sought_keys(rival)) & set(want.kind.sought_keys(body)):
            return ExistsError(want.label, f"{unit_words(mark)} wants it, too", page(record))
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
    return kind is not CABLE or (not wanted and has_same_ends(record, body))


def _not_marked(
    want: Want, body: Mapping[str, JsonValue], hits: Sequence[Record], *, adopt: bool
) -> Match | ExistsError:
    if len(hits) > 1 and want.kind is not CABLE:
        return ExistsError(want.label, f"{len(hits)} objects answer to it; make it one of them by hand", page(hits[0]))
    hit = next((one for one in hits if not is_of_site(one, want.mark)), hits[0])
    if (other := mark_of(hit)) is not None:
        return ExistsError(want.label, f"is managed by Pinion already, as {other}", page(hit))
    if want.kind is CABLE:
        if len(hits) == 1 and has_same_ends(hit, body):
            return Match(hit, take=True)
        return ExistsError(want.label, f"one of its ports is taken by {hit.get('display')}", page(hit))
    if adopt or (want.kind.inside and _lies_inside(want.kind, hit, body)):
        return Match(hit, take=True)
    return ExistsError(want.label, "exists already and is not Pinion's; set pinion:adopt to take it over", page(hit))


def _lies_inside(kind: Kind, record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Whether it is part of the same record of ours: natural keys of interfaces and MAC addresses say so, an address may be anywhere."""
    return kind is not IP_ADDRESS or all(
        record.get(name) == body.get(name) for name in ("assigned_object_type", "assigned_object_id")
    )


def has_same_ends(record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Whether a cable joins what *body* says: which side is a is a matter of taste."""
    return sorted(map(repr, cable_ends(CABLE.plain(record)))) == sorted(map(repr, cable_ends(body)))


def overlapping(view: View, body: Mapping[str, JsonValue], mark: str, others: Others) -> list[Record]:
    """Ranges of the site that NetBox would not let stand beside the wanted one, and that no want of the batch keeps."""
    site = site_of(mark)
    if site not in others.spans:
        ranges = [one for one in view.beneath(IP_RANGE, site) if plain(one.get("vrf")) is None]
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


def compare(want: Want, body: Mapping[str, JsonValue], found: Match) -> Body:
    """The patch that makes the record as wanted; empty when nothing differs. Notes what differs in *found*."""
    if found.used:
        return {}
    record = found.record
    same_ends = bool(want.kind.joins) and has_same_ends(record, body)
    found.differing |= {
        name
        for name, wanted in body.items()
        if not (same_ends if name in want.kind.joins else same(plain(record.get(name)), wanted))
    }
    patch: Body = {name: wanted for name, wanted in body.items() if name in found.differing}
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
