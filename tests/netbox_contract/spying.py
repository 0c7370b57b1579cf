"""A record store that passes everything on, notes the writes, and can lose answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pinion.drivers.netbox.errors import UnreachableError
from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.kinds.values import Body, Record
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.server.schema import EndPoint
from pinion.drivers.netbox.server.store import RecordStore

T = TypeVar("T")


@dataclass(frozen=True)
class Write:
    """One write that was sent."""

    method: str
    kind: Kind
    bodies: Sequence[Body]


class Spy:
    """A `RecordStore` around *store*."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.writes: list[Write] = []
        self.reads = 0
        self._lost: list[tuple[str, Kind]] = []
        self._delayed: list[tuple[str, Kind]] = []
        self._pending: dict[tuple[str, Kind], Callable[[], object]] = {}

    @property
    def url(self) -> str:
        return self.store.url

    def facts(self) -> ServerFacts:
        return self.store.facts()

    def lose_answer(self, method: str, kind: Kind) -> None:
        """The next such write is done, but its answer never comes."""
        self._lost.append((method, kind))

    def delay_effect(self, method: str, kind: Kind) -> None:
        """The next such write times out, and takes effect just before the one after it."""
        self._delayed.append((method, kind))

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        self.reads += 1
        return self.store.find(kind, fixed, name, values)

    def end_points(self) -> tuple[EndPoint, ...]:
        return self.store.end_points()

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> list[Record]:
        self.reads += 1
        return self.store.listing(path, query)

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        return self._sent("POST", kind, bodies, lambda: self.store.create(kind, bodies))

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        return self._sent("PATCH", kind, patches, lambda: self.store.update(kind, patches, etags))

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        return self._sent(
            "DELETE", kind, [{"id": number} for number in ids], lambda: self.store.delete(kind, ids, etags)
        )

    def _sent(self, method: str, kind: Kind, bodies: Sequence[Body], work: Callable[[], T]) -> T:
        self.writes.append(Write(method, kind, bodies))
        if (method, kind) in self._delayed:
            self._delayed.remove((method, kind))
            self._pending[method, kind] = work
            raise UnreachableError(f"{kind.name} list", "no answer in time", self.url, maybe_applied=True)
        if earlier := self._pending.pop((method, kind), None):
            earlier()
        result = work()
        if (method, kind) in self._lost:
            self._lost.remove((method, kind))
            raise UnreachableError(f"{kind.name} list", "the answer was lost", self.url, maybe_applied=True)
        return result


class Hand:
    """Writes by somebody else, whom the driver does not know of until it asks anew."""

    def __init__(self, store: RecordStore, forget: Callable[[], None]) -> None:
        self._store = store
        self._forget = forget

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        self._forget()
        return self._store.create(kind, bodies)

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        self._forget()
        return self._store.update(kind, patches, etags)

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        self._forget()
        self._store.delete(kind, ids, etags)
