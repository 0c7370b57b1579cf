"""The one algorithm behind every apply and every preview: for each kind in order, look, decide, make room, write what differs.

Invariants:

* Preview and apply run the same code; a preview stops short of the writes.
* A POST follows a look-up that found nothing, and is never repeated without another look-up.
* Nothing is written where nothing differs, since NetBox moves `last_updated` even for equal values.
* Every write names the version it was decided on (If-Match); when that moved, we look again and decide again.
* Updates come before creates: what they give up, a create may need.
* A unit that fails takes nothing with it but what refers to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from pinion.drivers.netbox.errors import ChangedError, ExistsError, MissingError
from pinion.drivers.netbox.failures import given_up
from pinion.drivers.netbox.handover import Handover
from pinion.drivers.netbox.kinds import DEVICE, INTERFACE, IP_ADDRESS, KINDS, Kind
from pinion.drivers.netbox.making import Again, Making
from pinion.drivers.netbox.matching import Match, Others, candidates, is_at_home, match
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.results import Conflict
from pinion.drivers.netbox.retry import Budget
from pinion.drivers.netbox.store import Record, identity
from pinion.drivers.netbox.units import Batch, Item
from pinion.drivers.netbox.unwanted import remove_unwanted
from pinion.drivers.netbox.wants import Ref

#: How often we look again at records that keep changing under us.
ATTEMPTS = 5

_Decision = tuple[Item, "Match | Conflict | None"]


class Engine:
    """One run over a batch of units. *total_time*: seconds that the attempts at one kind may take."""

    def __init__(self, batch: Batch, *, total_time: float = 120.0, budget: Callable[[float], Budget] = Budget) -> None:
        self._batch = batch
        self._world = batch.world
        self._resolver = batch.resolver
        self._making = Making(batch)
        self._handover = Handover(batch)
        self._budget = budget
        self._total_time = total_time
        self._bodies: dict[Kind, dict[str, Mapping[str, JsonValue]]] = defaultdict(dict)
        self._foreseen: dict[tuple[Kind, str], list[Record]] = {}

    def run(self) -> None:
        """Bring every unit to its wish, or note in it why not."""
        remove_unwanted(self._batch)
        for kind in KINDS:
            self._settle_outside(kind)
            self._settle(kind)
            if (
                kind is IP_ADDRESS
            ):  # all that late fields refer to is there; cables move the interfaces' version, so they come after
                self._settle_late(INTERFACE)
                self._settle_late(DEVICE)

    def _settle_outside(self, kind: Kind) -> None:
        """Find the ids of what our wants refer to and nobody in this batch makes."""
        waiting: list[tuple[Ref, dict[str, JsonValue]]] = []
        for ref in self._batch.outside[kind].values():
            if found := self._world.marked(kind, ref.mark):
                self._resolver.know(ref, identity(found[0]))
                continue
            fields: dict[str, JsonValue] = {}
            for name, value in ref.natural:
                resolved = self._resolver.value(value)
                if not isinstance(resolved, MissingError):
                    fields[name] = resolved
            if ref.natural and len(fields) == len(ref.natural):
                waiting.append((ref, fields))
            else:
                self._resolver.miss(ref)
        self._batch.look_up(kind, [fields for _, fields in waiting])
        for ref, fields in waiting:
            hits = candidates(self._world, kind, fields)
            if hits:
                self._resolver.know(ref, identity(hits[0]))
            else:
                self._resolver.miss(ref)

    # --- one kind -------------------------------------------------------------------------------------------------------

    def _settle(self, kind: Kind) -> None:
        """Make every record of one kind as wanted."""
        todo = [(unit, want) for unit, want in self._batch.by_kind[kind] if self._batch.runs_on(unit)]
        budget = self._budget(self._total_time)
        for attempt in range(ATTEMPTS):
            items = self._batch.resolved(todo)
            if not items:
                return
            self._batch.load(kind)
            creates, updates, again = self._accept(kind, self._with_room(kind, items))
            if self._batch.dry:
                self._making.foreseen(creates, updates)
                return
            again += self._making.update(kind, updates, attempt, self._handover.inherited)
            again += self._making.create(kind, creates, attempt, self._handover.inherited)
            if not again:
                return
            todo = [(item.unit, item.want) for item, _ in again]
            patient = attempt + 1 < ATTEMPTS and budget.pause()
            self._world.forget(kind)
            if not patient:
                self._making.give_up(kind, again)
                return

    def _with_room(self, kind: Kind, items: Sequence[Item]) -> list[_Decision]:
        """Decide, and when others of ours have to make room first, see to that and decide again."""
        decisions: list[_Decision] = []
        for _ in range(len(items) + 1):  # each round brings at least one of them to its place
            decisions, others = self._decide(kind, items)
            decided = [(item, found) for item, found in decisions if not isinstance(found, Conflict)]
            if self._batch.dry:
                self._handover.foresee(kind, decided, others)
            if self._batch.dry or not self._handover.make_room(kind, decided, others):
                break
        return decisions

    def _decide(self, kind: Kind, items: Sequence[Item]) -> tuple[list[_Decision], Others]:
        """Match each want with what is there. Those that have nothing yet choose first: what they get, its old owner has not."""
        self._bodies[kind].update({item.want.mark: item.body for item in items})
        others = Others(self._bodies[kind], self._batch.alive)
        records = {item.want.mark: self._world.marked(kind, item.want.mark) for item in items}
        self._batch.look_up(kind, [item.body for item in items if not _at_home(kind, item, records[item.want.mark])])
        renamed = self._handover.recognise(kind, items, others)
        others.claimed.update({identity(record): mark for mark, record in renamed.items()})
        decisions: dict[str, _Decision] = {}
        for item in sorted(items, key=lambda item: bool(records[item.want.mark])):
            record = renamed.get(item.want.mark)
            found: Match | Conflict | None
            if record is not None:
                found = Match(record, predecessor=mark_of(record))
            else:
                inside = self._resolver.value(item.want.inside) if item.want.inside else None
                found = match(self._world, item.want, item.body, adopt=item.unit.adopt, inside=inside, others=others)
            if isinstance(found, Match) and found.predecessor is not None:
                others.claimed[identity(found.record)] = item.want.mark
            decisions[item.want.mark] = (item, found)
        return [decisions[item.want.mark] for item in items], others

    def _accept(self, kind: Kind, decisions: Sequence[_Decision]) -> tuple[list[Item], list[tuple[Item, Match]], Again]:
        """Sort decisions into creates, updates and what has to be looked at again. Conflicts end their unit."""
        creates: list[Item] = []
        updates: list[tuple[Item, Match]] = []
        again: Again = []
        for item, found in decisions:
            if isinstance(found, Conflict):
                self._refuse(item, found)
            elif found is None:
                creates.append(item)
            elif (
                found.displaced is not None and not self._batch.dry
            ):  # the exchange of marks failed: nothing without it
                again.append((item, ChangedError("changed by someone else meanwhile", self._batch.store.url)))
            else:
                self._making.found(item, found)
                updates.append((item, found))
                if self._batch.dry and found.predecessor is not None:
                    self._foreseen[kind, item.want.mark] = [found.record]
        return creates, updates, again

    def _refuse(self, item: Item, conflict: Conflict) -> None:
        item.unit.conflicts.append(conflict)
        item.unit.fail(ExistsError(conflict.object, conflict.reason, conflict.url))
        if item.want.mark == item.unit.mark:
            item.unit.exists = True
        if self._batch.dry:
            self._resolver.pretend(item.ref)

    # --- late fields ----------------------------------------------------------------------------------------------------

    def _settle_late(self, kind: Kind) -> None:
        """Set the fields that refer to later kinds (primary address, primary MAC)."""
        todo = [(unit, want) for unit, want in self._batch.by_kind[kind] if want.late and self._batch.runs_on(unit)]
        budget = self._budget(self._total_time)
        for attempt in range(ATTEMPTS):
            # A preview of something new has no record, nor has what was taken away meanwhile: the next run sees it.
            there = [(unit, want) for unit, want in todo if self._records(kind, want.mark)]
            items = self._batch.resolved(there, late=True)
            pairs = [(item, Match(self._records(kind, item.want.mark)[0])) for item in items]
            if self._batch.dry:
                self._making.foreseen([], pairs)
                return
            again = self._making.update(kind, pairs, attempt)
            if not again:
                return
            todo = [(item.unit, item.want) for item, _ in again]
            if attempt + 1 == ATTEMPTS or not budget.pause():
                for item, reason in again:
                    item.unit.fail(given_up(item.want, reason))
                return
            self._world.forget(kind)
            self._batch.load(kind)

    def _records(self, kind: Kind, mark: str) -> list[Record]:
        """The records for a late field: by mark, in the preview of a rename by the old one."""
        return self._world.marked(kind, mark) or self._foreseen.get((kind, mark), [])


def _at_home(kind: Kind, item: Item, records: Sequence[Record]) -> bool:
    """Whether no other record can be concerned: the wanted one is there with all its natural keys."""
    return bool(records) and is_at_home(kind, records[0], item.body)
