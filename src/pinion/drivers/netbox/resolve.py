"""From references to ids, and from wanted bodies to the searches that would find their records."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from pinion.drivers.netbox.errors import MissingError
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MAC_ADDRESS,
    PREFIX,
    RACK,
    VLAN,
    Kind,
)
from pinion.drivers.netbox.plain import cable_ends
from pinion.drivers.netbox.wants import Ends, Ref, Value
from pinion.drivers.netbox.world import World

Search = tuple[dict[str, str], str, list[str]]

#: How to search for unmarked records of a kind: (filter that limits, its field), (filter, its field). Others are found by slug.
_SEARCHES: dict[Kind, tuple[tuple[tuple[str, str] | None, tuple[str, str]], ...]] = {
    RACK: ((("site_id", "site"), ("name", "name")),),
    VLAN: (
        (("group_id", "group"), ("vid", "vid")),
        (("group_id", "group"), ("name", "name")),
        (("site_id", "site"), ("vid", "vid")),
    ),
    PREFIX: ((None, ("prefix", "prefix")),),
    DEVICE: ((("site_id", "site"), ("name", "name")),),
    INTERFACE: ((None, ("device_id", "device")),),
    MAC_ADDRESS: ((None, ("interface_id", "assigned_object_id")),),
}


class Resolver:
    """Ids of references in one run. In a preview (*dry*) what is not there yet gets a negative number in place of an id."""

    def __init__(self, world: World, *, dry: bool) -> None:
        self._world = world
        self._dry = dry
        self._ids: dict[tuple[Kind, str], int] = {}
        self._missing: set[tuple[Kind, str]] = set()

    def know(self, ref: Ref, number: int) -> None:
        """Note the id of a reference."""
        self._ids[ref.kind, ref.mark] = number

    def pretend(self, ref: Ref) -> None:
        """Note, in a preview, that the record would be made."""
        self._ids[ref.kind, ref.mark] = -1 - len(self._ids)

    def miss(self, ref: Ref) -> None:
        """Note that nothing answers to the reference. A preview assumes that the same `up` makes it."""
        if self._dry:
            self.pretend(ref)
        else:
            self._missing.add((ref.kind, ref.mark))

    def value(self, value: Value) -> JsonValue | MissingError:
        """A wanted value in the shape of a write."""
        if isinstance(value, Ref):
            number = self._ids.get((value.kind, value.mark))
            return (
                number
                if number is not None
                else MissingError(value.label, f"needs {value.label}, which is not in NetBox")
            )
        if isinstance(value, Ends):
            end = self.value(value.interface)
            return end if isinstance(end, MissingError) else [{"object_type": "dcim.interface", "object_id": end}]
        if isinstance(value, tuple):
            numbers: list[int] = []
            for ref in value:
                one = self.value(ref)
                if isinstance(one, MissingError):
                    return one
                if isinstance(one, int):
                    numbers.append(one)
            return list(sorted(numbers))  # noqa: C413 - a list of JSON values, not of int
        return value

    def show(self, value: Value) -> JsonValue:
        """A wanted value in a word of the site file."""
        if isinstance(value, Ref):
            last = value.natural[-1][1] if value.natural else value.label
            named = dict(value.natural)
            for name in ("name", "slug", "address", "mac_address"):
                if isinstance(word := named.get(name), str):
                    return word
            return last if isinstance(last, str) else value.label
        if isinstance(value, Ends):
            return [value.interface.label]
        if isinstance(value, tuple):
            return [self.show(one) for one in value]
        return value

    def searches(self, kind: Kind, bodies: Sequence[Mapping[str, JsonValue]]) -> Iterator[Search]:
        """The queries that find records of natural keys like those of *bodies*."""
        if not bodies:
            return
        if kind is CABLE:
            ends = {
                str(number)
                for body in bodies
                for _, number in cable_ends(body)
                if isinstance(number, int) and number > 0
            }
            yield {}, "interface_id", sorted(ends, key=int)
        elif kind is IP_ADDRESS:
            yield {}, "address", [str(body["address"]).split("/")[0] for body in bodies if "address" in body]
        elif kind is IP_RANGE:  # all of its prefix: NetBox lets no two ranges overlap
            starts = [str(body["start_address"]) for body in bodies if "start_address" in body]
            yield {}, "parent", list(dict.fromkeys(str(ipaddress.ip_interface(start).network) for start in starts))
        elif kind in _SEARCHES:
            for limit, (name, field) in _SEARCHES[kind]:
                yield from _grouped(bodies, limit, name, field)
        else:
            yield {}, "slug", [str(body["slug"]) for body in bodies if "slug" in body]


def _grouped(
    bodies: Sequence[Mapping[str, JsonValue]], limit: tuple[str, str] | None, name: str, field: str
) -> Iterator[Search]:
    """One query for each value of the limiting field: a rack's name means something in its site only."""
    groups: dict[str, list[str]] = {}
    for body in bodies:
        value, holder = body.get(field), body.get(limit[1]) if limit else None
        if (
            value is None
            or (isinstance(value, int) and value < 0)
            or (isinstance(holder, int) and holder < 0)
            or (limit and holder is None)
        ):
            continue
        groups.setdefault(str(holder) if limit else "", []).append(str(value))
    for holder_id, values in groups.items():
        yield ({limit[0]: holder_id} if limit else {}), name, list(dict.fromkeys(values))
