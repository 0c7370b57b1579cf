"""Removing whole units, by mark: what another unit took over carries another mark by now and stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinion.drivers.netbox.kinds import CABLE, DEVICE
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.reading import Shape
from pinion.drivers.netbox.removal import Removal
from pinion.drivers.netbox.results import D, Deleted, Left
from pinion.drivers.netbox.store import Record, RecordStore, identity
from pinion.drivers.netbox.words import describe
from pinion.drivers.netbox.world import World
from pinion.drivers.netbox.writes import Writes


def delete_units(store: RecordStore, shape: Shape[D], keys: Sequence[str]) -> dict[str, Deleted]:
    """Remove the units *keys* as far as we created them; release what we adopted. For each what went and what was left."""
    marks = {shape.mark(key): key for key in keys}
    world = World(store, scan=False)  # a deletion looks afresh
    deleted: dict[str, list[str]] = {key: [] for key in keys}
    left: dict[str, list[Left]] = {key: [] for key in keys}
    world.load_all({kind: ((), list(marks)) for kind in shape.kinds})
    units = {kind: world.by_unit(kind, list(marks)) for kind in shape.kinds}
    removal = Removal(store, Writes(store))
    for kind in reversed(shape.kinds):
        owners = {identity(one): marks[mark] for mark, ones in units[kind].items() for one in ones}
        records = [one for ones in units[kind].values() for one in ones]
        if kind is CABLE:
            records += _cables_on(store, units[DEVICE], owners, marks)
        for outcome in removal.remove(kind, records) if records else ():
            key = owners[identity(outcome.record)]
            if outcome.left is None:
                deleted[key].append(describe(kind, outcome.record))
            else:
                left[key].append(outcome.left)
    return {key: Deleted(tuple(deleted[key]), tuple(left[key])) for key in keys}


def _cables_on(
    store: RecordStore, devices: Mapping[str, Sequence[Record]], owners: dict[int, str], marks: Mapping[str, str]
) -> list[Record]:
    """Cables of ours that end on the devices but belong to the unit at their other end: NetBox would leave them without an end."""
    numbers = [str(identity(record)) for records in devices.values() for record in records]
    more = []
    for record in store.find(CABLE, {}, "device_id", numbers) if numbers else ():
        if mark_of(record) is not None and identity(record) not in owners:
            more.append(record)
            owners[identity(record)] = next(iter(marks.values()))
    return more
