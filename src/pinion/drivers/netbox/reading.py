"""Reading units: what carries a unit's mark, else, for an import, what answers to its name.

Invariant: what carries another unit's mark is never read as this one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS_OF_UNIT,
    MARK,
    PREFIX,
    SITE,
    TAG,
    VLAN,
    Kind,
)
from pinion.drivers.netbox.observe import Parts
from pinion.drivers.netbox.plain import cable_ends, mark_of, page, plain, plain_record
from pinion.drivers.netbox.results import D, Observed
from pinion.drivers.netbox.store import Record, RecordStore, identity
from pinion.drivers.netbox.wants import Want
from pinion.drivers.netbox.words import describe
from pinion.drivers.netbox.world import World


@dataclass(frozen=True, slots=True)
class Shape(Generic[D]):
    """What distinguishes the three units: their records and the way there and back."""

    stem: str
    main: Kind
    expand: Callable[[D], list[Want]]
    observe: Callable[[str, Parts, World], Observed[D]]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of record of which such a unit consists."""
        return KINDS_OF_UNIT[self.stem]

    def mark(self, key: str) -> str:
        """The unit's mark."""
        site, _, name = key.partition("/")
        return f"{site}/{self.stem}/{name}" if name else f"{site}/{self.stem}"


class Reading(Generic[D]):
    """Reads units of one shape."""

    def __init__(self, store: RecordStore, world: World, shape: Shape[D]) -> None:
        self._store = store
        self._world = world
        self._shape: Shape[D] = shape

    def read(self, keys: Sequence[str]) -> list[Observed[D] | None]:
        """Each unit as NetBox holds it, None when there is none."""
        kinds, main = self._shape.kinds, self._shape.main
        marks = [self._shape.mark(key) for key in keys]
        self._world.load_all(dict.fromkeys(kinds, ((), marks)))
        parts = {kind: self._world.by_unit(kind, marks) for kind in kinds}
        if main is DEVICE:
            self._load_vlans([record for unit in parts[INTERFACE].values() for record in unit])
        results: list[Observed[D] | None] = []
        for key, mark in zip(keys, marks, strict=True):
            mine, doubles = _singled({kind: sorted(parts[kind][mark], key=identity) for kind in kinds})
            mine[main] = [one for one in mine[main] if mark_of(one) == mark]
            if mine[main]:
                results.append(self._observed(key, mine, doubles))
            elif (foreign := self._foreign(key))[main]:
                results.append(self._observed(key, foreign, doubles))
            elif any(_hangs_on_something(kind, one) for kind in kinds for one in mine[kind]):
                results.append(self._remnant(key, mine))
            else:
                results.append(None)
        return results

    def _observed(self, key: str, parts: Parts, drift: Sequence[str]) -> Observed[D]:
        observed: Observed[D] = self._shape.observe(key, parts, self._world)
        return replace(observed, other_drift=(*observed.other_drift, *drift))

    def _remnant(self, key: str, parts: Mapping[Kind, Sequence[Record]]) -> Observed[D]:
        """What is left of a unit whose main object is gone or another's by now: enough to be removed, or made whole again."""
        rest = [(kind, one) for kind, ones in parts.items() for one in ones]
        empty: Record = {"id": 0, "tags": [{"slug": TAG}], "custom_fields": {MARK: self._shape.mark(key)}}
        left = ", ".join(describe(kind, one) for kind, one in rest)
        drift = [f"its {self._shape.main.name} is gone, or another's by now; left of it: {left}"]
        observed = self._observed(key, {**parts, self._shape.main: [empty]}, drift)
        ids = {name: number for name, number in observed.ids.items() if number}
        return replace(observed, ids=ids, url=page(rest[0][1]) or "")

    def _load_vlans(self, interfaces: Sequence[Record]) -> None:
        """The VLANs that ports name, to tell them by their names in the site file."""
        values: list[JsonValue] = []
        for interface in interfaces:
            values.append(plain(interface.get("untagged_vlan")))
            if isinstance(tagged := plain(interface.get("tagged_vlans")), list):
                values += tagged
        wanted = {value for value in values if isinstance(value, int)}
        missing = [number for number in sorted(wanted) if self._world.get(VLAN, number) is None]
        self._world.look_up(VLAN, {}, "id", [str(number) for number in missing])

    def _foreign(self, key: str) -> dict[Kind, list[Record]]:
        """The records of a unit that is not ours, by natural key and by what hangs on it."""
        store = self._store
        slug, _, name = key.partition("/")
        sites = [one for one in store.find(SITE, {}, "slug", [slug]) if one.get("slug") == slug]
        found: dict[Kind, list[Record]] = {kind: [] for kind in self._shape.kinds}
        if not sites or self._shape.main is SITE:
            return {**found, SITE: sites[:1]} if self._shape.main is SITE else found
        scope = {"site_id": str(identity(sites[0]))}
        mains = [
            one
            for one in store.find(self._shape.main, scope, "name", [name])
            if str(one.get("name")).casefold() == name.casefold() and mark_of(one) is None
        ]
        if not mains:
            return found
        found[self._shape.main] = mains[:1]
        number = str(identity(mains[0]))
        if self._shape.main is VLAN:
            found[PREFIX] = store.find(PREFIX, {}, "vlan_id", [number])
            networks = [str(one.get("prefix")) for one in found[PREFIX]]
            found[IP_RANGE] = store.find(IP_RANGE, {}, "parent", networks) if networks else []
        else:
            for kind in (INTERFACE, IP_ADDRESS, CABLE):
                found[kind] = store.find(kind, {}, "device_id", [number])
            self._load_vlans(found[INTERFACE])
        return found


def _hangs_on_something(kind: Kind, record: Record) -> bool:
    """False for a cable without an end: NetBox leaves it when a device is deleted by hand, and nobody misses it."""
    ends = cable_ends(plain_record(kind, record))
    return kind is not CABLE or len(ends) == 2


def _singled(parts: Mapping[Kind, Sequence[Record]]) -> tuple[dict[Kind, list[Record]], list[str]]:
    """The records without their doubles (same mark, higher id), and the doubles in words. The next apply deletes them."""
    kept: dict[Kind, list[Record]] = {}
    doubles: list[str] = []
    for kind, records in parts.items():
        first: dict[str | None, Record] = {}
        more = [record for record in records if first.setdefault(mark_of(record), record) is not record]
        doubles += [f"{describe(kind, record)} is there twice" for record in more]
        kept[kind] = list(first.values())
    return kept, doubles
