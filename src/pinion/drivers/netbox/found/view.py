"""What is known of NetBox at the moment: records by id, by mark and by natural key, fetched in as few calls as there are kinds.

Invariants:

* Only what a server sent is in here; every hit is verified here, because NetBox answers a filter that it does not know with everything.
* Many threads may share a view. A write's answer replaces the record at once; whoever finds it wrong calls `forget`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import CUSTOM_FIELDS, MARK, Key, Kind
from pinion.drivers.netbox.kinds.marks import is_within, mark_of, site_of, stated_mark, unit_of
from pinion.drivers.netbox.kinds.values import Record, identity
from pinion.drivers.netbox.server.store import RecordStore

#: From this many marks of one kind on, one listing of the whole site is cheaper than naming them.
_SCAN_FROM = 40
#: Reads at the same time. NetBox's usual two workers have four threads each; more would only queue.
_PARALLEL_READS = 6


class View:
    """A view of one NetBox. *scan*: fetch whole sites, because more questions about them are to be expected.

    *founded*: the tag and the custom fields are known to be there.
    """

    def __init__(self, store: RecordStore, *, scan: bool, founded: bool = False) -> None:
        self._store = store
        self._scan = scan
        self._lock = threading.RLock()
        self._fetching: dict[Kind, threading.Lock] = defaultdict(threading.Lock)
        self._records: dict[Kind, dict[int, Record]] = defaultdict(dict)
        self._marks: dict[Kind, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._untagged: dict[Kind, set[int]] = defaultdict(set)
        self._keys: dict[Kind, dict[Key, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._scanned: dict[Kind, set[str]] = defaultdict(set)
        self._asked: dict[Kind, set[str]] = defaultdict(set)
        self._marks_exist: bool | None = True if founded else None
        self.foundation_checked = founded

    # --- content --------------------------------------------------------------------------------------------------------

    def put(self, kind: Kind, record: Record) -> None:
        """Take in a record that the server sent."""
        trimmed = {name: record[name] for name in kind.reading if name in record}
        number = identity(record)
        with self._lock:
            self.drop(kind, number)
            self._records[kind][number] = trimmed
            if (mark := mark_of(trimmed)) is not None:
                self._marks[kind][mark].add(number)
            elif stated_mark(trimmed) is not None:
                self._untagged[kind].add(number)
            for key in kind.natural_keys(kind.plain(trimmed)):
                self._keys[kind][key].add(number)

    def drop(self, kind: Kind, number: int) -> None:
        """Forget one record: it is gone, or about to be replaced."""
        with self._lock:
            old = self._records[kind].pop(number, None)
            if old is None:
                return
            if (mark := mark_of(old)) is not None:
                self._marks[kind][mark].discard(number)
            self._untagged[kind].discard(number)
            for key in kind.natural_keys(kind.plain(old)):
                self._keys[kind][key].discard(number)

    def forget(self, *kinds: Kind) -> None:
        """Forget everything about *kinds*: the next question is asked of the server."""
        with self._lock:
            for kind in kinds:
                for content in (self._records, self._marks, self._untagged, self._keys, self._scanned, self._asked):
                    content.pop(kind, None)

    def get(self, kind: Kind, number: int) -> Record | None:
        """The record of that id, as far as fetched."""
        with self._lock:
            return self._records[kind].get(number)

    def marked(self, kind: Kind, mark: str) -> list[Record]:
        """Records that carry exactly *mark*, lowest id first."""
        with self._lock:
            return [self._records[kind][number] for number in sorted(self._marks[kind].get(mark, ()))]

    def beneath(self, kind: Kind, unit: str) -> list[Record]:
        """Records that carry the mark *unit* or one that begins with it and a slash, by mark."""
        with self._lock:
            marks = sorted(mark for mark in self._marks[kind] if is_within(mark, unit))
            return [self._records[kind][number] for mark in marks for number in sorted(self._marks[kind][mark])]

    def by_unit(self, kind: Kind, units: Collection[str]) -> dict[str, list[Record]]:
        """`beneath` for many units in one pass. A unit's mark has three words or two (a site's own)."""
        found: dict[str, list[Record]] = {unit: [] for unit in units}
        with self._lock:
            for mark in sorted(self._marks[kind]):
                words = mark.split("/", 3)
                for unit in ("/".join(words[:2]), "/".join(words[:3])):
                    if unit in found:
                        found[unit] += [self._records[kind][number] for number in sorted(self._marks[kind][mark])]
                        break
        return found

    def untagged(self, kind: Kind) -> list[Record]:
        """Records that have an identity of Pinion's but not the tag any more, lowest id first."""
        with self._lock:
            return [self._records[kind][number] for number in sorted(self._untagged[kind])]

    def keyed(self, kind: Kind, keys: Iterable[Key]) -> list[Record]:
        """Records that share any of the natural *keys*, lowest id first."""
        with self._lock:
            numbers = {number for key in keys for number in self._keys[kind].get(key, ())}
            return [self._records[kind][number] for number in sorted(numbers)]

    # --- fetching -------------------------------------------------------------------------------------------------------

    def marks_exist(self) -> bool:
        """Whether NetBox has our custom field. Without it there is nothing of ours, and a filter by it would return everything."""
        with self._fetching[CUSTOM_FIELDS]:  # the first readers come together: one asks for all
            if self._marks_exist is None:
                found = self._store.find(CUSTOM_FIELDS, {}, "name", [MARK])
                self._marks_exist = any(record.get("name") == MARK for record in found)
            return self._marks_exist

    def marks_made(self) -> None:
        """Note that the custom field exists now, and serves."""
        self._marks_exist = self.foundation_checked = True

    def load_marks(self, kind: Kind, marks: Collection[str], units: Collection[str]) -> None:
        """Fetch the records that carry *marks*, and all of the *units* (by their marks)."""
        if not kind.marked or not (marks or units) or not self.marks_exist():
            return
        with self._fetching[kind]:
            parts, missing = self._unknown(kind, marks, units)
            sites = sorted({site_of(one) for one in (*missing, *parts)})
            if sites and (self._scan or len(missing) + len(parts) > _SCAN_FROM):
                self._fetch(kind, {}, f"cf_{MARK}__isw", [f"{site}/" for site in sites])
                self._scanned[kind].update(sites)
                return
            # "pi-1" also fetches what is of "pi-10": the marks tell them apart here.
            for name, values in ((f"cf_{MARK}__isw", parts), (f"cf_{MARK}", missing)):
                self._fetch(kind, {}, name, values)
                self._asked[kind].update(values)

    def _unknown(self, kind: Kind, marks: Iterable[str], units: Iterable[str]) -> tuple[list[str], list[str]]:
        """Units, and marks in none of them, that nobody has asked for yet."""
        scanned, asked = self._scanned[kind], self._asked[kind]
        parts = {unit: None for unit in units if unit not in asked and site_of(unit) not in scanned}
        alone = [mark for mark in marks if mark not in asked and site_of(mark) not in scanned]
        return list(parts), [mark for mark in alone if unit_of(mark) not in parts]

    def load_all(self, wanted: Mapping[Kind, tuple[Collection[str], Collection[str]]]) -> None:
        """`load_marks` for many kinds (marks and units of each) at the same time: on a long link the waits would add up."""
        unknown = [kind for kind in wanted if any(self._unknown(kind, *wanted[kind]))]
        if unknown and self.marks_exist():
            with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="netbox-read") as pool:
                list(pool.map(lambda kind: self.load_marks(kind, *wanted[kind]), unknown))

    def look_up(self, kind: Kind, bodies: Sequence[Mapping[str, JsonValue]]) -> None:
        """Fetch what has natural keys like those of *bodies*."""
        for limit, name, values in kind.queries(bodies):
            self._fetch(kind, limit, name, values)

    def look_at(self, kind: Kind, numbers: Iterable[int]) -> None:
        """Fetch the records of these ids."""
        self._fetch(kind, {}, "id", [str(number) for number in numbers])

    def _fetch(self, kind: Kind, fixed: Mapping[str, str], name: str, values: Collection[str]) -> None:
        for record in self._store.find(kind, fixed, name, list(values)) if values else ():
            self.put(kind, record)
