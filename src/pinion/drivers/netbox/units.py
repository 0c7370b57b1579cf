"""The units of one run: what each wants, what came of it, and what the run works with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.errors import MissingError, NetBoxError
from pinion.drivers.netbox.kinds import KINDS_OF_UNIT, Kind
from pinion.drivers.netbox.resolve import Resolver
from pinion.drivers.netbox.results import Change, Conflict
from pinion.drivers.netbox.store import RecordStore
from pinion.drivers.netbox.wants import Ref, Want
from pinion.drivers.netbox.world import World
from pinion.drivers.netbox.writes import Writes


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
    conflicts: list[Conflict] = field(default_factory=list)
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

    @property
    def ref(self) -> Ref:
        """The reference by which others name the record."""
        return Ref(self.want.kind, self.want.mark, self.want.label)


class Batch:
    """The units of one run. *dry*: a preview. *alive*: marks of further units that the site file still holds, as far as known."""

    def __init__(
        self, store: RecordStore, world: World, units: Sequence[Unit], *, dry: bool, alive: Iterable[str] = ()
    ) -> None:
        self.store = store
        self.world = world
        self.units = units
        self.dry = dry
        self.writes = Writes(store)
        self.resolver = Resolver(world, dry=dry)
        self.alive = frozenset(alive) | {unit.mark for unit in units}
        self.by_kind: dict[Kind, list[tuple[Unit, Want]]] = defaultdict(list)
        self.outside: dict[Kind, dict[str, Ref]] = defaultdict(dict)
        own = {(want.kind, want.mark) for unit in units for want in unit.wants}
        for unit in units:
            for want in unit.wants:
                self.by_kind[want.kind].append((unit, want))
                for ref in want.refs():
                    if (ref.kind, ref.mark) not in own:
                        self.outside[ref.kind][ref.mark] = ref

    def load(self, *kinds: Kind) -> None:
        """Fetch what is marked as the units' or as something that they refer to."""
        relevant = {want.kind for unit in self.units for want in unit.wants}
        relevant |= {kind for unit in self.units for kind in KINDS_OF_UNIT[unit.mark.split("/")[1]]}
        units = [unit.mark for unit in self.units]
        wanted = {}
        for kind in kinds:
            marks = [want.mark for _, want in self.by_kind[kind]] + list(self.outside[kind])
            if marks or kind in relevant:
                wanted[kind] = (marks, units if kind in relevant else [])
        self.world.load_all(wanted)

    def look_up(self, kind: Kind, bodies: Sequence[Mapping[str, JsonValue]]) -> None:
        """Fetch what has natural keys like those of *bodies*."""
        for fixed, name, values in self.resolver.searches(kind, bodies):
            self.world.look_up(kind, fixed, name, values)

    def runs_on(self, unit: Unit) -> bool:
        """Whether there is still something to do for a unit. A preview goes on to tell all that is in the way."""
        return unit.error is None or self.dry

    def resolved(self, todo: Iterable[tuple[Unit, Want]], *, late: bool = False) -> list[Item]:
        """Wants with their references resolved; a unit that refers to what is not there has failed."""
        items = []
        for unit, want in todo:
            body: dict[str, JsonValue] = {}
            missing: MissingError | None = None
            for name, value in (want.late if late else want.body).items():
                resolved = self.resolver.value(value)
                if isinstance(resolved, MissingError):
                    missing = missing or resolved
                else:
                    body[name] = resolved
            if missing is not None:
                unit.fail(MissingError(want.label, missing.reason, missing.url))
            if missing is None or late:
                items.append(Item(unit, want, body))
        return items
