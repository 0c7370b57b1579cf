"""The NetBox driver: read, diff, apply and delete for sites, VLANs and devices, from any number of threads.

Invariants:

* No state that must survive: what is Pinion's is told by marks in NetBox itself, so any run may be killed and repeated.
* Calls that arrive together share their requests; each gets its own answer or error.
* With *fresh* above 0 a listing answers further reads for that long. Writes stay safe: each names the version it was decided on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Generic, Unpack

from pinion.drivers.netbox.batching import Batcher
from pinion.drivers.netbox.compared.batch import Batch, Unit
from pinion.drivers.netbox.errors import ExistsError, RefusedError
from pinion.drivers.netbox.found.units import Reading
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import KINDS
from pinion.drivers.netbox.kinds.marks import unit_words
from pinion.drivers.netbox.results import Applied, Deleted, Observed, ServerFacts, UnitDiff
from pinion.drivers.netbox.server.http_store import HttpStore
from pinion.drivers.netbox.server.session import Settings
from pinion.drivers.netbox.server.store import RecordStore
from pinion.drivers.netbox.wanted.records import D, DeviceRecord, SiteRecords, VlanRecord
from pinion.drivers.netbox.wanted.units import DEVICE_UNIT, SITE_UNIT, VLAN_UNIT, UnitType
from pinion.drivers.netbox.written.deleting import delete_units
from pinion.drivers.netbox.written.foundation import ensure_foundation
from pinion.drivers.netbox.written.run import Run


class NetBoxDriver:
    """The driver on a NetBox server; *url*, *token* and *settings*: see `HttpStore`.

    Seconds: *window* (how long a call waits for others), *fresh* (how long a listing of a site may answer further reads; 0: every batch
    asks anew). Sends nothing by itself.
    """

    def __init__(
        self, url: str, token: str, *, window: float = 0.02, fresh: float = 0.0, **settings: Unpack[Settings]
    ) -> None:
        store = HttpStore(url, token, **settings)
        self._set_up(store, window, fresh, store.total_time)

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
        self._view: View | None = None
        self._founded = False
        self._born = 0.0
        self.sites: UnitDriver[SiteRecords] = UnitDriver(self, SITE_UNIT, window)
        self.vlans: UnitDriver[VlanRecord] = UnitDriver(self, VLAN_UNIT, window)
        self.devices: UnitDriver[DeviceRecord] = UnitDriver(self, DEVICE_UNIT, window)

    def __repr__(self) -> str:
        return f"NetBoxDriver({self.store.url!r})"

    def check(self) -> ServerFacts:
        """Who answers: raises `UnreachableError`, `DeniedError` (token) or `RefusedError` (a release that we do not know)."""
        return self.store.facts()

    def close(self) -> None:
        """Close the connections."""
        if isinstance(self.store, HttpStore):
            self.store.close()

    def view(self) -> View:
        """What is known of NetBox: shared for *fresh* seconds, else empty."""
        with self._lock:
            now = time.monotonic()
            if self._view is None or now - self._born > self._fresh or self._fresh <= 0:
                self._view, self._born = View(self.store, scan=self._fresh > 0, founded=self._founded), now
            return self._view

    def forget(self) -> None:
        """Ask anew from now on, whatever *fresh* says."""
        with self._lock:
            self._view = None

    def run(self, units: Sequence[Unit], *, dry: bool, alive: Iterable[str]) -> View:
        """One run over *units*. *alive*: marks of units that the site file holds."""
        view = self.view()
        if not dry:
            ensure_foundation(self.store, view)
            self._founded = True
        Run(Batch(self.store, view, units, dry=dry, alive=alive), total_time=self._total_time).run()
        return view


class UnitDriver(Generic[D]):
    """Read, diff, apply and delete for one kind of unit. Safe for many threads: calls that arrive together are one call of `lists`."""

    def __init__(self, driver: NetBoxDriver, unit: UnitType[D], window: float) -> None:
        self.lists: UnitLists[D] = UnitLists(driver, unit)
        self._unit: UnitType[D] = unit
        self._reads: Batcher[str, Observed[D] | None] = Batcher(self.lists.read, window)
        self._diffs: dict[bool, Batcher[D, UnitDiff]] = {
            adopt: Batcher[D, UnitDiff](partial(self.lists.diff, adopt=adopt), window) for adopt in (False, True)
        }
        self._applies: dict[bool, Batcher[D, Applied[D]]] = {
            adopt: Batcher[D, Applied[D]](partial(self.lists.apply, adopt=adopt), window) for adopt in (False, True)
        }
        self._deletes: Batcher[str, Deleted] = Batcher(self.lists.delete, window)

    def expect(self, keys: Iterable[str]) -> None:
        """Say which units the site file holds, as far as known. A unit that is among them was not renamed: what another one takes over
        from it is just that, and its main object stays its own. Without this all works too, but an id may go to the wrong one of two."""
        self.lists.alive |= {self._unit.mark(key) for key in keys}

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


class UnitLists(Generic[D]):
    """The work for one kind of unit, in lists: a result or an error for each, in order. *alive*: marks of what the site file holds."""

    def __init__(self, driver: NetBoxDriver, unit: UnitType[D]) -> None:
        self.alive: frozenset[str] = frozenset()
        self._driver = driver
        self._unit: UnitType[D] = unit

    def _units(self, desired: Sequence[D], adopt: bool) -> list[Unit]:
        return [Unit(one.key, self._unit.mark(one.key), self._unit.wants(one), adopt) for one in desired]

    def diff(self, desired: Sequence[D], *, adopt: bool = False) -> Sequence[UnitDiff | Exception]:
        """`UnitDriver.diff` for each."""
        units = self._units(desired, adopt)
        self._driver.run(units, dry=True, alive=self.alive)
        results: list[UnitDiff | Exception] = []
        for unit in units:
            if unit.error is not None and not isinstance(unit.error, ExistsError):
                results.append(unit.error)
            else:
                results.append(UnitDiff(unit.exists, tuple(unit.changes), tuple(unit.conflicts), _renamed(unit)))
        return results

    def apply(self, desired: Sequence[D], *, adopt: bool = False) -> Sequence[Applied[D] | Exception]:
        """`UnitDriver.apply` for each; one that is asked for twice fails."""
        twice = _repeated([one.key for one in desired])
        units = self._units([one for one in desired if one.key not in twice], adopt)
        view = self._driver.run(units, dry=False, alive=self.alive)
        by_key = {unit.key: unit for unit in units}
        good = [unit.key for unit in units if unit.error is None]
        seen = dict(zip(good, self._reading(view).read(good), strict=True))
        results: list[Applied[D] | Exception] = []
        for one in desired:
            if one.key in twice:
                results.append(RefusedError(one.key, "was asked for twice at the same time", unit=one.key))
                continue
            unit, observed = by_key[one.key], seen.get(one.key)
            if unit.error is not None or observed is None:
                results.append(unit.error or RefusedError(one.key, "vanished while it was being made", unit=one.key))
            else:
                results.append(Applied(observed, tuple(unit.changes), _renamed(unit)))
        return results

    def read(self, keys: Sequence[str]) -> Sequence[Observed[D] | Exception | None]:
        """`UnitDriver.read` for each."""
        return self._reading(self._driver.view()).read(keys)

    def _reading(self, view: View) -> Reading[D]:
        return Reading(self._driver.store, view, self._unit)

    def delete(self, keys: Sequence[str]) -> Sequence[Deleted | Exception]:
        """`UnitDriver.delete` for each."""
        found = delete_units(self._driver.store, self._unit, list(dict.fromkeys(keys)))
        self._driver.view().forget(*KINDS)
        return [found[key] for key in keys]


def _renamed(unit: Unit) -> str | None:
    return unit_words(unit.predecessor) if unit.predecessor else None


def _repeated(keys: Sequence[str]) -> set[str]:
    return {key for key in keys if keys.count(key) > 1} if len(set(keys)) < len(keys) else set()
