"""Taking records out of NetBox: only what we made, in an order that leaves no cable without an end, with a word on what stays.

NetBox deletes some things along without asking (a site's scoped prefixes, a device's interfaces and their addresses) and blanks
others (a device's platform). So before a record goes, we look for what others hung on it; then it stays, and the answer says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinion.drivers.netbox.errors import ChangedError, DeniedError, NetBoxError, RefusedError, UnreachableError
from pinion.drivers.netbox.kinds import (
    CABLE,
    CATALOGUE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    PREFIX,
    SITE,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.kinds.marks import is_adopted, mark_of, release, unit_of, unit_words
from pinion.drivers.netbox.kinds.values import Record, etag, identity, page
from pinion.drivers.netbox.results import Left
from pinion.drivers.netbox.server.bulk import Writes
from pinion.drivers.netbox.server.retry import Budget
from pinion.drivers.netbox.server.store import RecordStore

#: How often a record that changes while we delete it is looked at again.
_ATTEMPTS = 4
_SECONDS = 30.0


def in_use(store: RecordStore, kind: Kind, records: Sequence[Record]) -> dict[int, str]:
    """Catalogue records that something refers to, by id, with a reason. Asked afresh: the counters move without any write to the record."""
    if kind not in CATALOGUE or not records:
        return {}
    used: dict[int, str] = {}
    for record in store.find(kind, {}, "id", [str(identity(one)) for one in records]):
        counts = [
            (name.removesuffix("_count"), value)
            for name in kind.observed
            if isinstance(value := record.get(name), int) and value
        ]
        if counts:
            used[identity(record)] = "still used by " + ", ".join(f"{value} {name}" for name, value in counts)
    return used


def strangers(store: RecordStore, kind: Kind, records: Sequence[Record]) -> dict[int, str]:
    """Records whose deletion would take something of others along, by id, with a reason."""
    found: dict[int, str] = {}
    ids = [str(identity(record)) for record in records]
    marks = {identity(record): mark_of(record) for record in records}
    if kind in (DEVICE, INTERFACE) and ids:
        for other in (IP_ADDRESS, CABLE):
            # All in one call: the answer does not say for which id, but each record names what it hangs on.
            for record in store.find(other, {}, "device_id" if kind is DEVICE else "interface_id", ids):
                for number in _holders(kind, other, record):
                    if reason := _stranger(other, record, marks.get(number)):
                        found.setdefault(number, f"{other.describe(record)} on it {reason}")
    if kind is SITE:
        for site in ids:
            scope = {"scope_type": "dcim.site", "scope_id": site}
            for other in (PREFIX, VLAN_GROUP):
                for record in store.find(other, scope):
                    found.setdefault(int(site), f"deleting it would delete {other.describe(record)}, too")
    return found


def _stranger(kind: Kind, record: Record, holder: str | None) -> str | None:
    """Why something on a device or interface with the mark *holder* is not of the same unit; None when it is."""
    mark = mark_of(record)
    if mark is None:
        return "was not made by Pinion"
    if kind is IP_ADDRESS and holder is not None and unit_of(mark) != unit_of(holder):
        return f"is of {unit_words(mark)} now"
    return None


def _holders(kind: Kind, other: Kind, record: Record) -> list[int]:
    """Ids of the interfaces, or their devices, that an address or a cable hangs on, from the nested objects of the answer."""
    things: list[object] = []
    if other is IP_ADDRESS:
        things = [record.get("assigned_object")]
    else:
        for side in ("a_terminations", "b_terminations"):
            ends = record.get(side)
            things += [end.get("object") for end in ends if isinstance(end, dict)] if isinstance(ends, list) else []
    if kind is DEVICE:
        things = [thing.get("device") for thing in things if isinstance(thing, dict)]
    return [number for thing in things if isinstance(thing, dict) and isinstance(number := thing.get("id"), int)]


class Outcome(NamedTuple):
    """What became of a record. *error*: None when it is gone or free. *left*: None when it is gone, else why it is still there."""

    record: Record
    error: NetBoxError | None
    left: Left | None


class Removal:
    """Deletes or releases records of ours."""

    def __init__(self, store: RecordStore, writes: Writes) -> None:
        self._store = store
        self._writes = writes

    def remove(self, kind: Kind, records: Sequence[Record]) -> list[Outcome]:
        """Delete those we made, release those we adopted."""
        answers: dict[int, NetBoxError | None] = {}
        kept = in_use(self._store, kind, records) | strangers(
            self._store, kind, [one for one in records if not is_adopted(one)]
        )
        waiting = list(records)
        marks = {identity(record): mark_of(record) for record in records}
        budget = Budget(_SECONDS)
        for _ in range(_ATTEMPTS):
            adopted = [record for record in waiting if is_adopted(record)]
            mine = [record for record in waiting if not is_adopted(record) and identity(record) not in kept]
            again = self._release(kind, adopted, answers) + self._delete(kind, mine, answers)
            found = self._store.find(kind, {}, "id", [str(number) for number in again]) if again else []
            # One that carries another mark by now was taken over: it is not ours to remove any more.
            waiting = [one for one in found if mark_of(one) == marks[identity(one)]]
            for number in set(again) - {identity(one) for one in waiting}:
                answers[number] = None  # gone, or no longer ours
            if not waiting or not budget.pause():
                break
        for record in records:
            reason = kept.get(identity(record)) if not is_adopted(record) else None
            if reason is not None:
                answers[identity(record)] = RefusedError(kind.describe(record), reason, page(record))
        return [_outcome(kind, record, answers.get(identity(record))) for record in records]

    def _delete(self, kind: Kind, records: Sequence[Record], answers: dict[int, NetBoxError | None]) -> list[int]:
        results = self._writes.delete(kind, [identity(one) for one in records], [etag(one) or "*" for one in records])
        return [identity(one) for one, result in zip(records, results, strict=True) if _note(one, result, answers)]

    def _release(self, kind: Kind, records: Sequence[Record], answers: dict[int, NetBoxError | None]) -> list[int]:
        results = self._writes.update(kind, [release(one) for one in records], [etag(one) or "*" for one in records])
        return [identity(one) for one, result in zip(records, results, strict=True) if _note(one, result, answers)]


def _outcome(kind: Kind, record: Record, error: NetBoxError | None) -> Outcome:
    reason = error.reason if error else None
    if error is None and is_adopted(record):
        reason = "was there before Pinion; its marks were taken off"
    return Outcome(record, error, Left(kind.describe(record), page(record), reason) if reason is not None else None)


def _note(record: Record, result: object, answers: dict[int, NetBoxError | None]) -> bool:
    """Keep the answer; True when the record must be looked at again."""
    if isinstance(result, ChangedError):
        answers[identity(record)] = RefusedError("", "kept changing", page(record))
        return True
    answers[identity(record)] = result if isinstance(result, NetBoxError) else None
    # NetBox answers 403 for an object that somebody else deletes at the same moment.
    return isinstance(result, (UnreachableError, DeniedError))
