"""Taking records out of NetBox: only what we made, in an order that leaves no cable without an end, with a word on what stays.

NetBox deletes some things along without asking and blanks others. So before anything goes, we look for what others hung on it
(`dependents`); then it stays, and the answer says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pinion.drivers.netbox.errors import ChangedError, DeniedError, NetBoxError, RefusedError, UnreachableError
from pinion.drivers.netbox.kinds import CATALOGUE, KINDS, Kind
from pinion.drivers.netbox.kinds.marks import is_adopted, mark_of, release
from pinion.drivers.netbox.kinds.values import Record, etag, identity, page
from pinion.drivers.netbox.results import Left
from pinion.drivers.netbox.server.bulk import Writes
from pinion.drivers.netbox.server.retry import Budget
from pinion.drivers.netbox.server.store import RecordStore
from pinion.drivers.netbox.written.dependents import kept

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


class Outcome(NamedTuple):
    """What became of a record. *error*: None when it is gone or free. *left*: None when it is gone, else why it is still there."""

    record: Record
    error: NetBoxError | None
    left: Left | None


class Removal:
    """Deletes or releases records of ours; in a preview (*dry*) says what would become of them."""

    def __init__(self, store: RecordStore, *, dry: bool = False) -> None:
        self._store = store
        self._dry = dry
        self._writes = Writes(store)

    def remove(self, kind: Kind, records: Sequence[Record]) -> list[Outcome]:
        """`remove_all` for one kind. What can't be told of what hangs on the records is the error of each."""
        try:
            return self.remove_all({kind: records})[kind]
        except NetBoxError as error:
            return [_outcome(kind, record, error) for record in records]

    def remove_all(self, going: Mapping[Kind, Sequence[Record]]) -> dict[Kind, list[Outcome]]:
        """Delete those we made, release those we adopted, what was made last first. What others hung on keeps what it hangs on.

        Raises `NetBoxError`, and has done nothing, when what hangs on the records can't be told.
        """
        stay = kept(self._store, {kind: [one for one in ones if not is_adopted(one)] for kind, ones in going.items()})
        return {kind: self._remove(kind, going[kind], stay[kind]) for kind in reversed(KINDS) if kind in going}

    def _remove(self, kind: Kind, records: Sequence[Record], stay: Mapping[int, str]) -> list[Outcome]:
        answers: dict[int, NetBoxError | None] = {}
        staying = {**in_use(self._store, kind, records), **stay}
        waiting = [] if self._dry else list(records)
        marks = {identity(record): mark_of(record) for record in records}
        budget = Budget(_SECONDS)
        for _ in range(_ATTEMPTS):
            adopted = [record for record in waiting if is_adopted(record)]
            mine = [record for record in waiting if not is_adopted(record) and identity(record) not in staying]
            again = self._release(kind, adopted, answers) + self._delete(kind, mine, answers)
            found = self._store.find(kind, {}, "id", [str(number) for number in again]) if again else []
            # One that carries another mark by now was taken over: it is not ours to remove any more.
            waiting = [one for one in found if mark_of(one) == marks[identity(one)]]
            for number in set(again) - {identity(one) for one in waiting}:
                answers[number] = None  # gone, or no longer ours
            if not waiting or not budget.pause():
                break
        for record in records:
            reason = staying.get(identity(record)) if not is_adopted(record) else None
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
    again = error is not None and kind not in CATALOGUE  # what others still use is theirs now
    left = Left(kind.describe(record), page(record), reason, again) if reason is not None else None
    return Outcome(record, error, left)


def _note(record: Record, result: object, answers: dict[int, NetBoxError | None]) -> bool:
    """Keep the answer; True when the record must be looked at again."""
    if isinstance(result, ChangedError):
        answers[identity(record)] = RefusedError("", "kept changing", page(record))
        return True
    answers[identity(record)] = result if isinstance(result, NetBoxError) else None
    # NetBox answers 403 for an object that somebody else deletes at the same moment.
    return isinstance(result, (UnreachableError, DeniedError))
