"""The units of one run: what each wants, what came of it, and what the run works with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.errors import ExistsError, MissingError, NetBoxError
from pinion.drivers.netbox.found.references import References
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import KINDS_OF_UNIT, Kind, Ref, Want
from pinion.drivers.netbox.results import Change
from pinion.drivers.netbox.server.bulk import Writes
from pinion.drivers.netbox.server.store import RecordStore


@dataclass(slots=True, eq=False)
class Unit:
    """One unit on its way. *predecessor*: mark of the unit whose main object became this one's (a rename in the site file)."""

    key: str
    mark: str
    wants: Sequence[Want]
    adopt: bool = False
    error: NetBoxError | None = None
    exists: bool = False
    predecessor: str | None = None
    conflicts: list[ExistsError] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def fail(self, error: NetBoxError) -> None:
        """Note the first error; what comes after it follows from it."""
        if self.error is None:
            error.unit = self.key
            self.error = error


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One want of a unit, with *body* its fields in the shape of a write."""

    unit: Unit
    want: Want
    body: dict[str, JsonValue]


class Batch:
    """The units of one run. *dry*: a preview. *alive*: marks of further units that the site file still holds, as far as known."""

    def __init__(
        self, store: RecordStore, view: View, units: Sequence[Unit], *, dry: bool, alive: Iterable[str] = ()
    ) -> None:
        self.store = store
        self.view = view
        self.units = units
        self.dry = dry
        self.writes = Writes(store)
        self.references = References(view, dry=dry)
        self.alive = frozenset(alive) | {unit.mark for unit in units}
        self.by_kind: dict[Kind, list[tuple[Unit, Want]]] = defaultdict(list)
        self.outside: dict[Kind, dict[str, Ref]] = defaultdict(dict)
        own = {(want.kind, want.mark) for unit in units for want in unit.wants}
        for unit in units:
            for want in unit.wants:
                self.by_kind[want.kind].append((unit, want))
        waiting = [ref for unit in units for want in unit.wants for ref in want.refs()]
        while waiting:
            ref = waiting.pop()
            if (ref.kind, ref.mark) not in own and ref.mark not in self.outside[ref.kind]:
                self.outside[ref.kind][ref.mark] = ref
                waiting += ref.refs()

    def load(self, *kinds: Kind) -> None:
        """Fetch what is marked as the units' or as something that they refer to."""
        relevant = {kind for unit in self.units for kind in KINDS_OF_UNIT[unit.mark.split("/")[1]]}
        units = [unit.mark for unit in self.units]
        wanted = {}
        for kind in kinds:
            marks = [want.mark for _, want in self.by_kind[kind]] + list(self.outside[kind])
            if marks or kind in relevant:
                wanted[kind] = (marks, units if kind in relevant else [])
        self.view.load_all(wanted)

    def to_do(self, kind: Kind) -> list[tuple[Unit, Want]]:
        """The wants of one kind. A unit that failed is done with; but a preview goes on, to tell all that is in the way."""
        return [(unit, want) for unit, want in self.by_kind[kind] if unit.error is None or self.dry]

    def resolved(self, todo: Iterable[tuple[Unit, Want]], *, late: bool = False) -> list[Item]:
        """Wants with their references resolved; a unit that refers to what is not there has failed."""
        items = []
        for unit, want in todo:
            values = {name: self.references.value(value) for name, value in (want.late if late else want.body).items()}
            missing = next((value for value in values.values() if isinstance(value, MissingError)), None)
            if missing is not None:
                unit.fail(MissingError(want.label, missing.reason, missing.url))
            if missing is None or late:
                body = {name: value for name, value in values.items() if not isinstance(value, MissingError)}
                items.append(Item(unit, want, body))
        return items
