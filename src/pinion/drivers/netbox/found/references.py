"""The ids behind references in one run."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from pinion.drivers.netbox.errors import MissingError
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import Ends, Kind, Ref, Value, Want
from pinion.drivers.netbox.kinds.values import identity


class References:
    """Ids of references. In a preview (*dry*) what is not there yet gets a negative number in place of an id."""

    def __init__(self, view: View, *, dry: bool) -> None:
        self._view = view
        self._dry = dry
        self._ids: dict[tuple[Kind, str], int] = {}

    def know(self, what: Ref | Want, number: int) -> None:
        """Note the id of a record."""
        self._ids[what.kind, what.mark] = number

    def pretend(self, what: Ref | Want) -> None:
        """Note, in a preview, that the record would be made."""
        self._ids[what.kind, what.mark] = -1 - len(self._ids)

    def find(self, kind: Kind, refs: Iterable[Ref]) -> None:
        """Find what nobody in the run makes: by mark, else by natural key. A preview assumes that the same `up` makes the rest."""
        waiting: list[tuple[Ref, dict[str, JsonValue]]] = []
        for ref in refs:
            if found := self._view.marked(kind, ref.mark):
                self.know(ref, identity(found[0]))
                continue
            values = [(name, self.value(value)) for name, value in ref.natural.items()]
            known = {name: value for name, value in values if not isinstance(value, MissingError)}
            waiting.append((ref, known if len(known) == len(values) else {}))
        self._view.look_up(kind, [fields for _, fields in waiting])
        for ref, fields in waiting:
            hits = self._view.keyed(kind, kind.sought_keys(fields))
            if hits:
                self.know(ref, identity(hits[0]))
            elif self._dry:
                self.pretend(ref)

    def value(self, value: Value) -> JsonValue | MissingError:
        """A wanted value in the shape of a write."""
        if isinstance(value, Ref):
            number = self._ids.get((value.kind, value.mark))
            missing = MissingError(value.label, f"needs {value.label}, which is not in NetBox")
            return missing if number is None else number
        if isinstance(value, Ends):
            end = self.value(value.interface)
            return end if isinstance(end, MissingError) else [{"object_type": "dcim.interface", "object_id": end}]
        if isinstance(value, tuple):
            numbers: list[JsonValue] = []
            for one in map(self.value, value):
                if isinstance(one, MissingError):
                    return one
                numbers.append(one)
            return sorted(numbers, key=lambda one: one if isinstance(one, int) else 0)
        return value


def shown(value: Value) -> JsonValue:
    """A wanted value in words of the site file."""
    if isinstance(value, Ref):
        return value.word
    if isinstance(value, Ends):
        return [value.interface.label]
    return [shown(one) for one in value] if isinstance(value, tuple) else value
