"""The NetBox driver: read, diff, apply, undo and delete for sites, VLANs and devices, from any number of threads.

Invariants:

* No state that must survive: what is Pinion's is told by marks in NetBox itself, so any run may be killed and repeated.
* Calls that arrive together share their requests; each gets its own answer or error.
* With *fresh* above 0 a listing answers further reads for that long. Writes stay safe: each names the version it was decided on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from pydantic import JsonValue

from pinion.drivers.netbox import expand, observe
from pinion.drivers.netbox.batching import Batcher
from pinion.drivers.netbox.desired import DeviceRecord, SiteRecords, VlanRecord
from pinion.drivers.netbox.engine import Engine, Unit
from pinion.drivers.netbox.errors import ExistsError, NetBoxError, RefusedError
from pinion.drivers.netbox.foundation import ensure_foundation
from pinion.drivers.netbox.http_store import HttpStore
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS,
    KINDS_OF_UNIT,
    PREFIX,
    SITE,
    VLAN,
    Kind,
)
from pinion.drivers.netbox.matching import describe
from pinion.drivers.netbox.plain import mark_of, page, plain
from pinion.drivers.netbox.removal import Removal
from pinion.drivers.netbox.results import Applied, D, Deleted, Left, Observed, ServerFacts, UnitDiff
from pinion.drivers.netbox.store import Record, RecordStore, identity
from pinion.drivers.netbox.undo import take_back
from pinion.drivers.netbox.wants import Want
from pinion.drivers.netbox.world import World
from pinion.drivers.netbox.writes import Writes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Shape(Generic[D]):
    """What distinguishes the three units: their records and the way there and back."""

    stem: str
    main: Kind
    expand: Callable[[D], list[Want]]
    observe: Callable[[str, observe.Parts, World], Observed[D]]

    def mark(self, key: str) -> str:
        site, _, name = key.partition("/")
        return f"{site}/{self.stem}/{name}" if name else f"{site}/{self.stem}"


class NetBoxDriver:
    """The driver on a NetBox server.

    *url*: without `/api`. *token*: v1 or v2. *ca_file*: PEM bundle, None for the system's. Seconds: *connect_timeout*,
    *read_timeout*, *total_time* (one request with its repetitions), *window* (how long a call waits for others), *fresh* (how long a
    listing of a site may answer further reads; 0: every batch asks anew). Sends nothing by itself.
    """

    def __init__(
        self, url: str, token: str, *, ca_file: str | None = None, connect_timeout: float = 5.0, read_timeout: float = 60.0,
        total_time: float = 120.0, window: float = 0.02, fresh: float = 0.0,
    ) -> None:  # fmt: skip
        store = HttpStore(
            url,
            token,
            ca_file=ca_file,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            total_time=total_time,
        )
        self._set_up(store, window, fresh, total_time)

    @classmethod
    def on(
        cls, store: RecordStore, *, window: float = 0.0, fresh: float = 0.0, total_time: float = 120.0
    ) -> NetBoxDriver:
        """The driver on another record store, such as the one in memory."""
        driver = cls.__new__(cls)
        driver._set_up(store, window, fresh, total_time)
        return driver

    def _set_up(self, store: RecordStore, window: float, fresh: float, total_time: float) -> None:
        self.store = store
        self._fresh = fresh
        self._total_time = total_time
        self._lock = threading.Lock()
        self._world: World | None = None
        self._founded = False
        self._born = 0.0
        self.sites: UnitDriver[SiteRecords] = UnitDriver(
            self, _Shape("site", SITE, expand.expand_site, observe.observe_site), window
        )
        self.vlans: UnitDriver[VlanRecord] = UnitDriver(
            self, _Shape("vlan", VLAN, expand.expand_vlan, observe.observe_vlan), window
        )
        self.devices: UnitDriver[DeviceRecord] = UnitDriver(
            self, _Shape("device", DEVICE, expand.expand_device, observe.observe_device), window
        )

    def __repr__(self) -> str:
        return f"NetBoxDriver({self.store.url!r})"

    def check(self) -> ServerFacts:
        """Who answers: raises `UnreachableError`, `DeniedError` (token) or `RefusedError` (a release that we do not know)."""
        return self.store.facts()

    def close(self) -> None:
        """Close the connections."""
        if isinstance(self.store, HttpStore):
            self.store.close()

    def world(self) -> World:
        """What is known of NetBox: shared for *fresh* seconds, else empty."""
        with self._lock:
            now = time.monotonic()
            if self._world is None or now - self._born > self._fresh or self._fresh <= 0:
                self._world, self._born = World(self.store, scan=self._fresh > 0, founded=self._founded), now
            return self._world

    def forget(self) -> None:
        """Ask anew from now on, whatever *fresh* says."""
        with self._lock:
            self._world = None

    def run(self, units: Sequence[Unit], *, dry: bool) -> World:
        """One run of the engine over *units*."""
        world = self.world()
        if not dry:
            ensure_foundation(self.store, world)
            self._founded = True
        Engine(self.store, world, units, dry=dry, total_time=self._total_time).run()
        return world


class UnitDriver(Generic[D]):
    """Read, diff, apply, undo and delete for one kind of unit. Safe for many threads."""

    def __init__(self, driver: NetBoxDriver, shape: _Shape[D], window: float) -> None:
        self._driver = driver
        self._shape: _Shape[D] = shape
        self._reads: Batcher[str, Observed[D] | None] = Batcher(self._read_all, window)
        self._diffs: dict[bool, Batcher[D, UnitDiff]] = {
            adopt: Batcher[D, UnitDiff](partial(self._diff_all, adopt=adopt), window) for adopt in (False, True)
        }
        self._applies: dict[bool, Batcher[D, Applied[D]]] = {
            adopt: Batcher[D, Applied[D]](partial(self._apply_all, adopt=adopt), window) for adopt in (False, True)
        }
        self._deletes: Batcher[str, Deleted] = Batcher(self._delete_all, window)

    # --- for one --------------------------------------------------------------------------------------------------------

    def read(self, key: str) -> Observed[D] | None:
        """The unit as NetBox holds it, None when there is none. Finds it by our mark, else by natural key."""
        return self._reads.call(key)

    def diff(self, desired: D, *, adopt: bool = False) -> UnitDiff:
        """What `apply` would change now. Sends nothing but GETs."""
        return self._diffs[adopt].call(desired)

    def apply(self, desired: D, *, adopt: bool = False) -> Applied[D]:
        """Make NetBox hold *desired*: create or adopt, update, remove parts of ours that are not wanted any more.

        Raises `ExistsError`, `MissingError`, `RefusedError`, `DeniedError`, `UnreachableError`, `StaleError`; what succeeded stays,
        and another apply goes on from there.
        """
        return self._applies[adopt].call(desired)

    def delete(self, key: str) -> Deleted:
        """Remove the unit as far as we created it; take our marks off what we adopted. Twice is fine."""
        return self._deletes.call(key)

    def undo(self, applied: Applied[D]) -> Deleted:
        """Take back what one apply did, newest first, as far as nobody changed it since."""
        result = take_back(self._driver.store, applied.journal)
        self._driver.world().forget(*KINDS)
        return result

    # --- for many -------------------------------------------------------------------------------------------------------

    def read_many(self, keys: Sequence[str]) -> list[Observed[D] | None]:
        """`read` for each, in as few requests."""
        return [_raised(one) for one in self._read_all(keys)]

    def delete_many(self, keys: Sequence[str]) -> list[Deleted]:
        """`delete` for each, in as few requests."""
        return [_raised(one) for one in self._delete_all(keys)]

    def apply_many(self, desired: Sequence[D], *, adopt: bool = False) -> list[Applied[D] | NetBoxError]:
        """`apply` for each, in as few requests; errors in place of results."""
        return [
            one if isinstance(one, (Applied, NetBoxError)) else _raised(one)
            for one in self._apply_all(desired, adopt=adopt)
        ]

    def diff_many(self, desired: Sequence[D], *, adopt: bool = False) -> list[UnitDiff]:
        """`diff` for each, in as few requests."""
        return [_raised(one) for one in self._diff_all(desired, adopt=adopt)]

    # --- the work -------------------------------------------------------------------------------------------------------

    def _units(self, desired: Sequence[D], adopt: bool) -> list[Unit]:
        return [Unit(one.key, self._shape.mark(one.key), self._shape.expand(one), adopt) for one in desired]

    def _diff_all(self, desired: Sequence[D], *, adopt: bool) -> Sequence[UnitDiff | Exception]:
        units = self._units(desired, adopt)
        self._driver.run(units, dry=True)
        results: list[UnitDiff | Exception] = []
        for unit in units:
            if unit.error is not None and not isinstance(unit.error, ExistsError):
                results.append(unit.error)
            else:
                results.append(UnitDiff(unit.exists, tuple(unit.changes), tuple(unit.conflicts)))
        return results

    def _apply_all(self, desired: Sequence[D], *, adopt: bool) -> Sequence[Applied[D] | Exception]:
        twice = _repeated([one.key for one in desired])
        units = self._units([one for one in desired if one.key not in twice], adopt)
        world = self._driver.run(units, dry=False)
        by_key = {unit.key: unit for unit in units}
        good = [unit.key for unit in units if unit.error is None]
        seen = dict(zip(good, self._observe_all(world, good), strict=True))
        results: list[Applied[D] | Exception] = []
        for one in desired:
            if one.key in twice:
                results.append(RefusedError(one.key, "was asked for twice at the same time", unit=one.key))
                continue
            unit, observed = by_key[one.key], seen.get(one.key)
            if unit.error is not None or observed is None:
                results.append(unit.error or RefusedError(one.key, "vanished while it was being made", unit=one.key))
            else:
                results.append(Applied(observed, tuple(unit.changes), tuple(unit.journal)))
        return results

    def _read_all(self, keys: Sequence[str]) -> Sequence[Observed[D] | Exception | None]:
        return self._observe_all(self._driver.world(), keys)

    def _observe_all(self, world: World, keys: Sequence[str]) -> list[Observed[D] | None]:
        kinds = KINDS_OF_UNIT[self._shape.stem]
        marks = [self._shape.mark(key) for key in keys]
        world.load_all(dict.fromkeys(kinds, ((), marks)))
        parts = {kind: world.by_unit(kind, marks) for kind in kinds}
        if self._shape.main is DEVICE:
            self._load_vlans(world, [record for unit in parts[INTERFACE].values() for record in unit])
        results: list[Observed[D] | None] = []
        for key, mark in zip(keys, marks, strict=True):
            twice: list[str]
            mine: dict[Kind, list[Record]]
            mine, twice = _singled({kind: sorted(parts[kind][mark], key=identity) for kind in kinds})
            mine[self._shape.main] = [one for one in mine[self._shape.main] if mark_of(one) == mark]
            if not mine[self._shape.main]:
                mine = self._foreign(world, key)
            results.append(self._observed(world, key, mine, twice) if mine[self._shape.main] else None)
        return results

    def _observed(
        self, world: World, key: str, parts: Mapping[Kind, Sequence[Record]], doubles: Sequence[str]
    ) -> Observed[D]:
        observed: Observed[D] = self._shape.observe(key, parts, world)
        return replace(observed, other_drift=(*observed.other_drift, *doubles))

    def _load_vlans(self, world: World, interfaces: Sequence[Record]) -> None:
        """The VLANs that ports name, to tell them by their names in the site file."""
        values: list[JsonValue] = []
        for interface in interfaces:
            values.append(plain(interface.get("untagged_vlan")))
            if isinstance(tagged := plain(interface.get("tagged_vlans")), list):
                values += tagged
        wanted = {value for value in values if isinstance(value, int)}
        missing = [number for number in sorted(wanted) if world.get(VLAN, number) is None]
        world.look_up(VLAN, {}, "id", [str(number) for number in missing])

    def _foreign(self, world: World, key: str) -> dict[Kind, list[Record]]:
        """The records of a unit that is not ours, by natural key and by what hangs on it."""
        store = self._driver.store
        kinds = KINDS_OF_UNIT[self._shape.stem]
        slug, _, name = key.partition("/")
        sites = [one for one in store.find(SITE, {}, "slug", [slug]) if one.get("slug") == slug]
        found: dict[Kind, list[Record]] = {kind: [] for kind in kinds}
        if not sites or self._shape.main is SITE:
            return {**found, SITE: sites[:1]} if self._shape.main is SITE else found
        scope = {"site_id": str(identity(sites[0]))}
        mains = [
            one
            for one in store.find(self._shape.main, scope, "name", [name])
            if str(one.get("name")).casefold() == name.casefold()
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
            self._load_vlans(world, found[INTERFACE])
        return found

    def _delete_all(self, keys: Sequence[str]) -> Sequence[Deleted | Exception]:
        keys_once = list(dict.fromkeys(keys))
        marks = {self._shape.mark(key): key for key in keys_once}
        world = World(self._driver.store, scan=False)  # a deletion looks afresh
        accounts: dict[str, tuple[list[str], list[Left]]] = {key: ([], []) for key in keys_once}
        kinds = KINDS_OF_UNIT[self._shape.stem]
        world.load_all({kind: ((), list(marks)) for kind in kinds})
        units = {kind: world.by_unit(kind, list(marks)) for kind in kinds}
        for kind in reversed(kinds):
            owners = {identity(one): marks[mark] for mark, ones in units[kind].items() for one in ones}
            records = [one for ones in units[kind].values() for one in ones]
            if kind is CABLE:
                records += self._cables_on(units[DEVICE], owners, marks)
            if records:
                self._remove(kind, records, owners, accounts)
        self._driver.world().forget(*KINDS)
        return [Deleted(tuple(accounts[key][0]), tuple(accounts[key][1])) for key in keys]

    def _cables_on(
        self, devices: Mapping[str, Sequence[Record]], owners: dict[int, str], marks: Mapping[str, str]
    ) -> list[Record]:
        """Cables of ours that end on the devices but belong to the unit at their other end: NetBox would leave them without an end."""
        numbers = {identity(record): marks[mark] for mark, records in devices.items() for record in records}
        more = []
        for record in (
            self._driver.store.find(CABLE, {}, "device_id", [str(number) for number in numbers]) if numbers else ()
        ):
            if mark_of(record) is not None and identity(record) not in owners:
                more.append(record)
                owners[identity(record)] = next(iter(marks.values()))
        return more

    def _remove(
        self,
        kind: Kind,
        records: Sequence[Record],
        owners: Mapping[int, str],
        accounts: Mapping[str, tuple[list[str], list[Left]]],
    ) -> None:
        removal = Removal(self._driver.store, Writes(self._driver.store))
        for record, error in removal.remove(kind, records):
            deleted, left = accounts[owners[identity(record)]]
            if error is not None:
                left.append(Left(describe(kind, record), page(record), error.reason))
            elif (
                note := next((one for one in removal.left if one.object == describe(kind, record)), None)
            ) is not None:
                left.append(note)
            else:
                deleted.append(describe(kind, record))


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


def _repeated(keys: Sequence[str]) -> set[str]:
    return {key for key in keys if keys.count(key) > 1} if len(set(keys)) < len(keys) else set()


def _raised(one: T | Exception) -> T:
    if isinstance(one, Exception):
        raise one
    return one
