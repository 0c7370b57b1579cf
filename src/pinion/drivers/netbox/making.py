"""Writing what was decided for the records of one kind: creates and updates, each with an answer of its own, and the account of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pinion.drivers.netbox import account
from pinion.drivers.netbox.errors import DeniedError, ExistsError
from pinion.drivers.netbox.failures import as_error, given_up, is_passing, looks_taken
from pinion.drivers.netbox.kinds import ADOPTED, MARK, TAG, Kind
from pinion.drivers.netbox.matching import Match, candidates, compare, is_adopted
from pinion.drivers.netbox.plain import page
from pinion.drivers.netbox.removal import Removal
from pinion.drivers.netbox.store import Body, Record, etag, identity
from pinion.drivers.netbox.units import Batch, Item

#: Items to look at again, with the reason.
Again = list[tuple[Item, Exception]]


class Making:
    """Creates and updates records of one run."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._world = batch.world
        self._tried: set[tuple[Kind, str]] = set()

    def note(self, item: Item, record: Record) -> None:
        """Note that *record* is the wanted one: others may refer to it."""
        self._batch.resolver.know(item.ref, identity(record))
        if item.want.mark == item.unit.mark:
            item.unit.exists = True

    def found(self, item: Item, found: Match) -> None:
        """Note a record that was there; an earlier attempt may have made it, although its answer was lost."""
        self.note(item, found.record)
        if (item.want.kind, item.want.mark) in self._tried:
            self._made(item, found.record)
        self._drop_doubles(item, found)

    def foreseen(self, creates: Sequence[Item], updates: Sequence[tuple[Item, Match]]) -> None:
        """In a preview: the account without the writes."""
        resolver = self._batch.resolver
        for item in creates:
            resolver.pretend(item.ref)
            account.created(item, None, resolver)
        for item, found in updates:
            if patch := compare(item.want, item.body, found):
                account.updated(item, found, patch, resolver)

    def create(self, kind: Kind, items: Sequence[Item], attempt: int, inherited: Collection[str]) -> Again:
        """Create; *inherited* are marks of what stands for something that was there before us."""
        again: Again = []
        made: list[Item] = []
        bodies = [_creation(item, adopted=item.want.mark in inherited) for item in items]
        for item, answer in zip(items, self._batch.writes.create(kind, bodies, attempt=attempt), strict=True):
            if isinstance(answer, Exception):
                # Taken by now: by another's hand, or by our own earlier POST whose answer was lost and which the server was still at.
                if is_passing(answer) or looks_taken(answer):
                    again.append((item, answer))
                    self._tried.add((kind, item.want.mark))
                else:
                    item.unit.fail(as_error(answer, item.want.label, None))
                continue
            made.append(item)
            self._world.put(kind, answer)
            self.note(item, answer)
            self._made(item, answer)
        if kind.weak and made:
            self._verify(kind, made)
        return again

    def update(
        self, kind: Kind, pairs: Sequence[tuple[Item, Match]], attempt: int, inherited: Collection[str] = ()
    ) -> Again:
        """PATCH what differs. *inherited*: as for `create`."""
        again: Again = []
        work: list[tuple[Item, Match, Body]] = []
        for item, found in pairs:
            patch = compare(item.want, item.body, found)
            if item.want.mark in inherited and not is_adopted(found.record):
                patch["custom_fields"] = {MARK: item.want.mark, ADOPTED: True}
            if patch:
                work.append((item, found, {"id": identity(found.record), **patch}))
        tags = [etag(found.record) or "*" for _, found, _ in work]
        answers = self._batch.writes.update(kind, [patch for _, _, patch in work], tags, attempt=attempt)
        for (item, found, patch), answer in zip(work, answers, strict=True):
            if isinstance(answer, Exception):
                if _worth_another(answer, attempt):
                    again.append((item, answer))
                else:
                    item.unit.fail(as_error(answer, item.want.label, page(found.record)))
                continue
            account.updated(item, found, patch, self._batch.resolver)
            self._world.put(kind, answer)
        return again

    def give_up(self, kind: Kind, again: Again) -> None:
        """A last look: what our lost POSTs have made by now is made; the rest has failed."""
        self._batch.load(kind)
        for item, reason in again:
            records = self._world.marked(kind, item.want.mark)
            if records and (kind, item.want.mark) in self._tried:
                self.note(item, records[0])
                self._made(item, records[0])
            else:
                item.unit.fail(given_up(item.want, reason))

    def _made(self, item: Item, record: Record) -> None:
        self._tried.discard((item.want.kind, item.want.mark))
        account.created(item, record, self._batch.resolver)

    def _drop_doubles(self, item: Item, found: Match) -> None:
        """Two creators raced past a check that is no lock: the lowest id stays, whoever sees the others deletes them."""
        if self._batch.dry or not found.doubles:
            return
        kind = item.want.kind
        for double, error, _ in Removal(self._batch.store, self._batch.writes).remove(kind, found.doubles):
            self._world.drop(kind, identity(double))
            if error is not None:
                item.unit.fail(as_error(error, f"second {item.want.label}", page(double)))

    def _verify(self, kind: Kind, items: Sequence[Item]) -> None:
        """After a create that no constraint guards: look whether another one got in beside it, and let the higher id go."""
        self._batch.look_up(kind, [item.body for item in items])
        for item in items:
            ours = self._world.marked(kind, item.want.mark)
            numbers = {identity(one) for one in ours}
            strangers = [one for one in candidates(self._world, kind, item.body) if identity(one) not in numbers]
            if not strangers and ours:
                self.note(item, ours[0])
                self._drop_doubles(item, Match(ours[0], doubles=tuple(ours[1:])))
            elif strangers and ours and identity(ours[0]) > identity(strangers[0]):
                for record in ours:
                    self._batch.writes.delete(kind, [identity(record)], [etag(record) or "*"])
                    self._world.drop(kind, identity(record))
                reason = "was created by someone else at the same moment"
                item.unit.fail(ExistsError(item.want.label, reason, page(strangers[0])))


def _worth_another(error: Exception, attempt: int) -> bool:
    """Whether an update is worth another attempt.

    "Not permitted" is also what NetBox says of an object that goes while it works on it; and what another record of the same list has
    yet to give up counts as taken.
    """
    if is_passing(error):
        return True
    return attempt == 0 and (looks_taken(error) or (isinstance(error, DeniedError) and not error.token))


def _creation(item: Item, *, adopted: bool) -> Body:
    body: Body = {name: value for name, value in item.body.items() if value is not None}
    body["tags"] = [{"slug": TAG}]
    body["custom_fields"] = {MARK: item.want.mark, **({ADOPTED: True} if adopted else {})}
    return body
