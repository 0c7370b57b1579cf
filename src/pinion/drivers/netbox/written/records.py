"""Writing what was decided for the records of one kind: creates and updates, each with an answer of its own, and the account of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pinion.drivers.netbox.compared import changes
from pinion.drivers.netbox.compared.batch import Batch, Item
from pinion.drivers.netbox.compared.matching import Match, candidates, compare
from pinion.drivers.netbox.errors import (
    ChangedError,
    DeniedError,
    ExistsError,
    NetBoxError,
    RefusedError,
    StaleError,
    UnreachableError,
)  # fmt: skip
from pinion.drivers.netbox.kinds import ADOPTED, MARK, TAG, Kind, Want
from pinion.drivers.netbox.kinds.marks import is_adopted
from pinion.drivers.netbox.kinds.values import Body, Record, etag, identity, page
from pinion.drivers.netbox.written.removal import Removal

#: Items to look at again, with the reason.
Again = list[tuple[Item, NetBoxError]]


class RecordWriter:
    """Creates and updates records of one run. *inherited*: marks of what stands for something that was there before us."""

    def __init__(self, batch: Batch, inherited: Collection[str]) -> None:
        self._batch = batch
        self._inherited = inherited
        self._view = batch.view
        self._tried: set[tuple[Kind, str]] = set()

    def found(self, item: Item, found: Match) -> None:
        """Note a record that was there; an earlier attempt may have made it, although its answer was lost."""
        self._note(item, found.record)
        if (item.want.kind, item.want.mark) in self._tried:
            self._made(item, found.record)
        self._drop_doubles(item, found)

    def foresee(self, creates: Sequence[Item], updates: Sequence[tuple[Item, Match]]) -> None:
        """In a preview: the account without the writes."""
        for item in creates:
            self._batch.references.pretend(item.want)
            changes.created(item, None)
        for item, found in updates:
            if patch := compare(item.want, item.body, found):
                changes.updated(item, found, patch)

    def create(self, kind: Kind, items: Sequence[Item], attempt: int) -> Again:
        """Create; what to look at again, with the reason."""
        again: Again = []
        made: list[Item] = []
        bodies = [_creation(item, adopted=item.want.mark in self._inherited) for item in items]
        for item, answer in zip(items, self._batch.writes.create(kind, bodies, attempt=attempt), strict=True):
            if not isinstance(answer, NetBoxError):
                made.append(item)
                self._view.put(kind, answer)
                self._note(item, answer)
                self._made(item, answer)
            elif _is_passing(answer) or _looks_taken(answer):
                # Taken by now: by another's hand, or by our own earlier POST whose answer was lost and which the server was still at.
                again.append((item, answer))
                self._tried.add((kind, item.want.mark))
            else:
                item.unit.fail(answer.about(item.want.label))
        if kind.weak and made:
            self._verify(kind, made)
        return again

    def update(self, kind: Kind, pairs: Sequence[tuple[Item, Match]], attempt: int) -> Again:
        """PATCH what differs; what to look at again, with the reason."""
        again: Again = []
        work: list[tuple[Item, Match, Body]] = []
        for item, found in pairs:
            patch = compare(item.want, item.body, found)
            if item.want.mark in self._inherited and not is_adopted(found.record):
                patch["custom_fields"] = {MARK: item.want.mark, ADOPTED: True}
            if patch:
                work.append((item, found, {"id": identity(found.record), **patch}))
        tags = [etag(found.record) or "*" for _, found, _ in work]
        answers = self._batch.writes.update(kind, [patch for _, _, patch in work], tags, attempt=attempt)
        for (item, found, patch), answer in zip(work, answers, strict=True):
            if not isinstance(answer, NetBoxError):
                changes.updated(item, found, patch)
                self._view.put(kind, answer)
            elif _worth_another(answer, attempt):
                again.append((item, answer))
            else:
                item.unit.fail(answer.about(item.want.label, page(found.record)))
        return again

    def give_up(self, kind: Kind, again: Again) -> None:
        """A last look: what our lost POSTs have made by now is made; the rest has failed."""
        for item, reason in again:
            records = self._view.marked(kind, item.want.mark)
            if records and (kind, item.want.mark) in self._tried:
                self._note(item, records[0])
                self._made(item, records[0])
            else:
                item.unit.fail(_given_up(item.want, reason))

    def _note(self, item: Item, record: Record) -> None:
        """Note that *record* is the wanted one: others may refer to it."""
        self._batch.references.know(item.want, identity(record))
        item.unit.exists |= item.want.mark == item.unit.mark

    def _made(self, item: Item, record: Record) -> None:
        self._tried.discard((item.want.kind, item.want.mark))
        changes.created(item, record)

    def _drop_doubles(self, item: Item, found: Match) -> None:
        """Two creators raced past a check that is no lock: the lowest id stays, whoever sees the others deletes them."""
        if self._batch.dry or not found.doubles:
            return
        kind = item.want.kind
        for double, error, _ in Removal(self._batch.store).remove(kind, found.doubles):
            self._view.drop(kind, identity(double))
            if error is not None:
                item.unit.fail(error.about(f"second {item.want.label}", page(double)))

    def _verify(self, kind: Kind, items: Sequence[Item]) -> None:
        """After a create that no constraint guards: look whether another one got in beside it, and let the higher id go."""
        self._view.look_up(kind, [item.body for item in items])
        for item in items:
            ours = self._view.marked(kind, item.want.mark)
            numbers = {identity(one) for one in ours}
            strangers = [one for one in candidates(self._view, kind, item.body) if identity(one) not in numbers]
            if not strangers and ours:
                self._note(item, ours[0])
                self._drop_doubles(item, Match(ours[0], doubles=tuple(ours[1:])))
            elif strangers and ours and identity(ours[0]) > identity(strangers[0]):
                for record in ours:
                    self._batch.writes.delete(kind, [identity(record)], [etag(record) or "*"])
                    self._view.drop(kind, identity(record))
                reason = "was created by someone else at the same moment"
                item.unit.fail(ExistsError(item.want.label, reason, page(strangers[0])))


def _creation(item: Item, *, adopted: bool) -> Body:
    body: Body = {name: value for name, value in item.body.items() if value is not None}
    body["tags"] = [{"slug": TAG}]
    body["custom_fields"] = {MARK: item.want.mark, **({ADOPTED: True} if adopted else {})}
    return body


# --- what a refusal means for the record that was written -------------------------------------------------------------------


def _is_passing(error: NetBoxError) -> bool:
    """Whether looking again may help."""
    return isinstance(error, (ChangedError, UnreachableError))


def _looks_taken(error: NetBoxError) -> bool:
    """Whether a refusal may mean that another record has by now, or still has, what this one is to get: then a look-up finds it."""
    if not isinstance(error, RefusedError):
        return False
    text = error.reason.lower()
    return any(word in text for word in ("already", "duplicate", "unique", "overlap", "cannot reassign"))


def _worth_another(error: NetBoxError, attempt: int) -> bool:
    """Whether an update is worth another attempt.

    "Not permitted" is also what NetBox says of an object that goes while it works on it; and what another record of the same list has
    yet to give up counts as taken.
    """
    lacks_permission = isinstance(error, DeniedError) and not error.token
    return _is_passing(error) or (attempt == 0 and (_looks_taken(error) or lacks_permission))


def _given_up(want: Want, reason: NetBoxError) -> NetBoxError:
    """The error after the last attempt."""
    if isinstance(reason, UnreachableError):
        return reason.about(want.label)
    if isinstance(reason, ChangedError):
        return StaleError(want.label, f"kept changing while we worked on it: {reason.reason}")
    return RefusedError(want.label, reason.reason, reason.url)
