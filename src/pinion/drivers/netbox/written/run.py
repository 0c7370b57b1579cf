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

from pinion.drivers.netbox.compared.batch import Batch, Item
from pinion.drivers.netbox.compared.matching import Match, Others, match
from pinion.drivers.netbox.compared.renamed import renamed
from pinion.drivers.netbox.errors import ChangedError, ExistsError
from pinion.drivers.netbox.kinds import DEVICE, INTERFACE, IP_ADDRESS, KINDS, Kind
from pinion.drivers.netbox.kinds.marks import mark_of
from pinion.drivers.netbox.kinds.values import Record, identity
from pinion.drivers.netbox.server.retry import Budget
from pinion.drivers.netbox.written.making_room import Room
from pinion.drivers.netbox.written.records import Again, RecordWriter
from pinion.drivers.netbox.written.unwanted import remove_unwanted

#: How often we look again at records that keep changing under us.
ATTEMPTS = 5

_Decision = tuple[Item, "Match | ExistsError | None"]


class Run:
    """One run over a batch of units. *total_time*: seconds that the attempts at one kind may take."""

    def __init__(self, batch: Batch, *, total_time: float = 120.0, budget: Callable[[float], Budget] = Budget) -> None:
        self._batch = batch
        self._view = batch.view
        self._room = Room(batch)
        self._writer = RecordWriter(batch, self._room.inherited)
        self._budget = budget
        self._total_time = total_time
        self._bodies: dict[Kind, dict[str, Mapping[str, JsonValue]]] = defaultdict(dict)
        self._foreseen: dict[tuple[Kind, str], list[Record]] = {}

    def run(self) -> None:
        """Bring every unit to its wish, or note in it why not."""
        remove_unwanted(self._batch)
        for kind in KINDS:
            self._batch.references.find(kind, self._batch.outside[kind].values())
            self._settle(kind)
            if kind is IP_ADDRESS:
                # All that late fields refer to is there by now; cables, which move the interfaces' versions, are not.
                self._settle(INTERFACE, late=True)
                self._settle(DEVICE, late=True)

    # --- one kind -------------------------------------------------------------------------------------------------------

    def _settle(self, kind: Kind, *, late: bool = False) -> None:
        """Make every record of one kind as wanted; *late*: its fields that refer to later kinds."""
        todo = [(unit, want) for unit, want in self._batch.to_do(kind) if want.late or not late]
        budget = self._budget(self._total_time)
        self._batch.load(kind)
        for attempt in range(ATTEMPTS):
            if (
                late
            ):  # a preview of something new has no record, nor has what was taken away meanwhile: the next run sees it
                todo = [(unit, want) for unit, want in todo if self._records(kind, want.mark)]
            items = self._batch.resolved(todo, late=late)
            if not items:
                return
            if late:
                creates, again = list[Item](), Again()
                updates = [(item, Match(self._records(kind, item.want.mark)[0])) for item in items]
            else:
                creates, updates, again = self._accept(kind, self._with_room(kind, items))
            if self._batch.dry:
                self._writer.foresee(creates, updates)
                return
            again += self._writer.update(kind, updates, attempt)
            again += self._writer.create(kind, creates, attempt)
            if not again:
                return
            todo = [(item.unit, item.want) for item, _ in again]
            patient = attempt + 1 < ATTEMPTS and budget.pause()
            self._view.forget(kind)
            self._batch.load(kind)
            if not patient:
                self._writer.give_up(kind, again)
                return

    def _with_room(self, kind: Kind, items: Sequence[Item]) -> list[_Decision]:
        """Decide, and when others of ours have to make room first, see to that and decide again."""
        decisions: list[_Decision] = []
        for _ in range(len(items) + 1):  # each round brings at least one of them to its place
            decisions, others = self._decide(kind, items)
            decided = [(item, found) for item, found in decisions if not isinstance(found, ExistsError)]
            if self._batch.dry:
                self._room.foresee(kind, decided, others)
            if self._batch.dry or not self._room.make(kind, decided, others):
                break
        return decisions

    def _decide(self, kind: Kind, items: Sequence[Item]) -> tuple[list[_Decision], Others]:
        """Match each want with what is there. Those that have nothing yet choose first: what they get, its old owner has not."""
        self._bodies[kind].update({item.want.mark: item.body for item in items})
        others = Others(self._bodies[kind], self._batch.alive)
        records = {item.want.mark: self._view.marked(kind, item.want.mark) for item in items}
        # Where the wanted one is there with all its natural keys, no other record can be concerned.
        at_home = {
            mark for mark, ones in records.items() if ones and kind.is_at_home(ones[0], self._bodies[kind][mark])
        }
        self._view.look_up(kind, [item.body for item in items if item.want.mark not in at_home])
        until_now = renamed(self._batch, kind, items, others)
        others.claimed.update({identity(record): mark for mark, record in until_now.items()})
        decisions: dict[str, _Decision] = {}
        for item in sorted(items, key=lambda item: bool(records[item.want.mark])):
            found: Match | ExistsError | None
            if (record := until_now.get(item.want.mark)) is not None:
                found = Match(record, predecessor=mark_of(record))
            else:
                found = match(self._view, item.want, item.body, adopt=item.unit.adopt, others=others)
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
            if isinstance(found, ExistsError):
                self._refuse(item, found)
            elif found is None:
                creates.append(item)
            elif found.displaced is not None and not self._batch.dry:
                # The exchange of marks failed: nothing without it.
                again.append((item, ChangedError("changed by someone else meanwhile", self._batch.store.url)))
            else:
                self._writer.found(item, found)
                updates.append((item, found))
                if self._batch.dry and found.predecessor is not None:
                    self._foreseen[kind, item.want.mark] = [found.record]
        return creates, updates, again

    def _refuse(self, item: Item, conflict: ExistsError) -> None:
        item.unit.conflicts.append(conflict)
        item.unit.fail(conflict)
        item.unit.exists |= item.want.mark == item.unit.mark
        if self._batch.dry:
            self._batch.references.pretend(item.want)

    def _records(self, kind: Kind, mark: str) -> list[Record]:
        """The records for a late field: by mark, in the preview of a rename by the old one."""
        return self._view.marked(kind, mark) or self._foreseen.get((kind, mark), [])
