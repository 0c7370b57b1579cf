"""What a unit asks of NetBox, record by record: the common language between the three units and the one engine.

Invariants:

* A `Want` names its record twice: by its mark (identity, survives any rename) and, through its body, by natural key.
* A `Ref` stands for an id that is not known yet. It names a record that another want makes, or that is there already.
* Marks of one unit begin with the unit's mark and a slash, so that the whole unit can be asked for, and what is no longer
  wanted can be found, without any state of our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import Kind


@dataclass(frozen=True, slots=True)
class Ref:
    """The id of a record. *natural*: the fields by which to find it when nothing carries *mark*. *label*: for messages."""

    kind: Kind
    mark: str
    label: str
    natural: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Ends:
    """One side of a cable: a single interface."""

    interface: Ref


Value: TypeAlias = "JsonValue | Ref | Ends | tuple[Ref, ...]"


@dataclass(frozen=True, slots=True)
class Want:
    """One record that must be as *body* says.

    *late*: fields set once later kinds exist. *path*: where the record stands in the unit. *paths*: property of a field, under *path*;
    a field without one is not shown in the unit (status, scope). *shared*: a catalogue object that is used as found when it is not ours.
    *inside*: part of a record of ours, so taken over without asking.
    """

    kind: Kind
    mark: str
    label: str
    body: Mapping[str, Value]
    path: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    late: Mapping[str, Value] = field(default_factory=dict)
    shared: bool = False
    inside: Ref | None = None

    def refs(self) -> Iterator[Ref]:
        """Every reference of body and late fields, and theirs."""
        for value in (*self.body.values(), *self.late.values()):
            yield from refs_in(value)


def refs_in(value: Value) -> Iterator[Ref]:
    """The references in a value, and those that they refer to, innermost first."""
    if isinstance(value, Ref):
        for _, part in value.natural:
            yield from refs_in(part)
        yield value
    elif isinstance(value, Ends):
        yield from refs_in(value.interface)
    elif isinstance(value, tuple):
        for item in value:
            yield from refs_in(item)
