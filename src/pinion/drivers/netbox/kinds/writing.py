"""The words in which the table is written: what a field holds, and where the things of a unit stand."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from pinion.drivers.netbox.kinds.kind import Field, Kind, NaturalKey, Ref, Search, Words
from pinion.drivers.netbox.kinds.values import cable_ends


def stated(
    name: str, of: str | None = None, *, shown: str | None = None, choices: Mapping[str, str] | None = None,
    read: Callable[[JsonValue], JsonValue] | None = None,
) -> Field:  # fmt: skip
    """A field that the site file states, under the property *of* when that has another name."""
    its = of or name
    into = choices or {}
    its_name = its if shown is None else shown
    return Field(name, lambda words: into.get(words[its], words[its]), its_name, its, read, into)


def always(name: str, value: JsonValue, drift: str = "") -> Field:
    """A field that has one value. *drift*: what to say of a record where it has another; `{}` is that."""
    return Field(name, lambda _: value, drift=drift, constant=value)


def refers(
    name: str, to: Kind, of: str, *, shown: bool | str = False, drift: str = "", read: Callable[[JsonValue], JsonValue] | None = None
) -> Field:  # fmt: skip
    """A field that refers to the record of kind *to* whose name is the word *of*; to nothing where that is empty."""

    def ref(words: Words) -> Ref | None:
        return to.ref({**words, to.named_by: words[of]}) if words.get(of) else None

    its = shown if isinstance(shown, str) else of if shown else None
    return Field(name, ref, its, of if its or read else None, read, to=to, drift=drift)


def refers_to_all(name: str, to: Kind, of: str) -> Field:
    """A field that refers to each of the records whose names are in the property *of*."""

    def refs(words: Words) -> tuple[Ref, ...]:
        return tuple(to.ref({**words, to.named_by: one}) for one in words[of])

    return Field(name, refs, of, of, to=to)


def each(listed: str, holder: Callable[[Any], Words]) -> Callable[[Any], Iterator[Words]]:
    """The words of each thing in the property *listed* of a unit, with those of the unit that *holder* gives."""
    return lambda unit: ({**holder(unit), **dict(one)} for one in getattr(unit, listed))


def key(*names: str, unless: str = "", fold: Callable[[JsonValue], JsonValue] | None = None) -> NaturalKey:
    """A natural key of these fields."""
    return NaturalKey(names, unless, fold)


def found_by(name: str, of: str | None = None, *, within: tuple[str, str] | None = None) -> Search:
    """A search by the filter *name* for the values of the field *of*."""
    return Search(name, of or name, within)


def host(address: JsonValue) -> str:
    """An address without its mask."""
    return str(address).split("/")[0]


def network(address: JsonValue) -> list[str]:
    """The prefix that an address with a mask lies in."""
    return [str(ipaddress.ip_interface(str(address)).network)]


def interfaces(side: JsonValue) -> list[str]:
    """The ids of the interfaces at one side of a cable."""
    return [str(number) for _, number in cable_ends({"a_terminations": side}) if isinstance(number, int) and number > 0]
