"""Removing whole units, by mark: what another unit took over carries another mark by now and stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pinion.drivers.netbox.found.units import of_that_name
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import CABLE, DEVICE, Kind
from pinion.drivers.netbox.kinds.marks import mark_of, stated_mark, unit_of
from pinion.drivers.netbox.kinds.values import Record, identity, page
from pinion.drivers.netbox.results import Deleted, Left
from pinion.drivers.netbox.server.store import RecordStore
from pinion.drivers.netbox.wanted.records import D
from pinion.drivers.netbox.wanted.units import UnitType
from pinion.drivers.netbox.written.removal import Removal

_NOT_OURS = "it does not say that it is Pinion's: its tag or its identity was taken off, or somebody made it anew"


def delete_units(store: RecordStore, unit: UnitType[D], keys: Sequence[str]) -> dict[str, Deleted]:
    """Remove the units *keys* as far as we created them; release what we adopted. For each what went and what was left."""
    marks = {unit.mark(key): key for key in keys}
    view = View(store, scan=False)  # a deletion looks afresh
    deleted: dict[str, list[str]] = {key: [] for key in keys}
    left: dict[str, list[Left]] = {key: [] for key in keys}
    view.load_all({kind: ((), list(marks)) for kind in unit.kinds})
    units = {kind: view.by_unit(kind, list(marks)) for kind in unit.kinds}
    owners: dict[Kind, dict[int, str]] = {}
    going: dict[Kind, list[Record]] = {}
    for kind in reversed(unit.kinds):
        owners[kind] = {identity(one): marks[mark] for mark, ones in units[kind].items() for one in ones}
        going[kind] = [one for ones in units[kind].values() for one in ones]
        if kind is CABLE:
            going[kind] += _cables_on(store, units[DEVICE], owners[kind], marks)
        for record in view.untagged(kind):
            if (owner := marks.get(unit_of(stated_mark(record) or ""))) is not None:
                reason = "its tag pinion was taken off: it is not Pinion's any more"
                left[owner].append(Left(kind.describe(record), page(record), reason))
    for kind, outcomes in Removal(store).remove_all(going).items():
        for outcome in outcomes:
            key = owners[kind][identity(outcome.record)]
            if outcome.left is None:
                deleted[key].append(kind.describe(outcome.record))
            else:
                left[key].append(outcome.left)
    gone = [key for key in keys if not units[unit.main][unit.mark(key)]]
    told = {one.url for ones in left.values() for one in ones}
    for key, records in of_that_name(store, unit, gone).items():
        left[key] += [Left(unit.main.describe(one), page(one), _NOT_OURS) for one in records if page(one) not in told]
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
