"""Reading units: what carries a unit's mark, else, for an import, what answers to its name; told in the words that state such a unit.

What was changed by hand may be outside what a wish may say (a VLAN's name with a slash), so units are built here without validation.
Invariant: what carries another unit's mark is never read as this one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, JsonValue

from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import (
    CABLE,
    DEVICE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    MARK,
    PREFIX,
    SITE,
    TAG,
    VLAN,
    Kind,
)  # fmt: skip
from pinion.drivers.netbox.kinds.marks import is_adopted, mark_of
from pinion.drivers.netbox.kinds.values import Record, cable_ends, identity, page, plain, same, word
from pinion.drivers.netbox.results import Observed, Owner
from pinion.drivers.netbox.server.store import RecordStore
from pinion.drivers.netbox.wanted.records import CableTo, D
from pinion.drivers.netbox.wanted.units import UnitType

#: The records of a unit, by kind.
Parts = Mapping[Kind, Sequence[Record]]
M = TypeVar("M", bound=BaseModel)


def of_that_name(store: RecordStore, unit: UnitType[D], keys: Sequence[str]) -> dict[str, list[Record]]:
    """For each unit the main objects that answer to its name and carry no mark of ours."""
    owners: dict[str, dict[str, str]] = {}
    for key in keys:
        site, _, name = key.partition("/")
        owners.setdefault(site, {})[name.casefold()] = key
    found: dict[str, list[Record]] = {key: [] for key in keys}
    for held in store.find(SITE, {}, "slug", list(owners)) if keys else ():
        named = owners.get(str(held.get("slug")), {})
        names = [key.partition("/")[2] for key in named.values()]
        is_site = unit.main is SITE
        for one in [held] if is_site else store.find(unit.main, {"site_id": str(identity(held))}, "name", names):
            owner = named.get("" if is_site else str(one.get("name")).casefold())
            if owner is not None and mark_of(one) is None:
                found[owner].append(one)
    return found


class Reading(Generic[D]):
    """Reads units of one type."""

    def __init__(self, store: RecordStore, view: View, unit: UnitType[D]) -> None:
        self._store = store
        self._view = view
        self._unit: UnitType[D] = unit

    def read(self, keys: Sequence[str]) -> list[Observed[D] | None]:
        """Each unit as NetBox holds it, None when there is none."""
        kinds, main = self._unit.kinds, self._unit.main
        marks = [self._unit.mark(key) for key in keys]
        self._view.load_all(dict.fromkeys(kinds, ((), marks)))
        parts = {kind: self._view.by_unit(kind, marks) for kind in kinds}
        self._load_vlans([record for records in parts.get(INTERFACE, {}).values() for record in records])
        results: list[Observed[D] | None] = []
        for key, mark in zip(keys, marks, strict=True):
            mine, doubles = _singled({kind: sorted(parts[kind][mark], key=identity) for kind in kinds})
            mine[main] = [one for one in mine[main] if mark_of(one) == mark]
            if mine[main]:
                results.append(self._observed(key, mine, doubles))
            elif (foreign := self._foreign(key))[main]:
                results.append(self._observed(key, foreign, doubles))
            elif any(_hangs_on_something(kind, one) for kind in kinds for one in mine[kind]):
                results.append(self._remnant(key, mine))
            else:
                results.append(None)
        return results

    # --- what there is --------------------------------------------------------------------------------------------------

    def _load_vlans(self, interfaces: Sequence[Record]) -> None:
        """The VLANs that ports name, to tell them by their names in the site file."""
        values: list[JsonValue] = []
        for interface in interfaces:
            values.append(plain(interface.get("untagged_vlan")))
            if isinstance(tagged := plain(interface.get("tagged_vlans")), list):
                values += tagged
        wanted = {value for value in values if isinstance(value, int)}
        self._view.look_at(VLAN, [number for number in sorted(wanted) if self._view.get(VLAN, number) is None])

    def _foreign(self, key: str) -> dict[Kind, Sequence[Record]]:
        """The records of a unit that is not ours, by natural key and by what hangs on it."""
        find, main = self._store.find, self._unit.main
        mains = of_that_name(self._store, self._unit, [key])[key][:1]
        found: dict[Kind, Sequence[Record]] = {**dict.fromkeys(self._unit.kinds, ()), main: mains}
        number = [str(identity(one)) for one in mains]
        if main is VLAN and mains:
            found[PREFIX] = find(PREFIX, {}, "vlan_id", number)
            networks = [str(one.get("prefix")) for one in found[PREFIX]]
            found[IP_RANGE] = find(IP_RANGE, {}, "parent", networks)
        elif main is DEVICE and mains:
            found |= {kind: find(kind, {}, "device_id", number) for kind in (INTERFACE, IP_ADDRESS, CABLE)}
            self._load_vlans(found[INTERFACE])
        return found

    def _remnant(self, key: str, parts: Parts) -> Observed[D]:
        """What is left of a unit whose main object is gone or another's by now: enough to be removed, or made whole again."""
        rest = [(kind, one) for kind, ones in parts.items() for one in ones]
        empty: Record = {"id": 0, "tags": [{"slug": TAG}], "custom_fields": {MARK: self._unit.mark(key)}}
        left = ", ".join(kind.describe(one) for kind, one in rest)
        drift = [f"its {self._unit.main.name} is gone, or another's by now; left of it: {left}"]
        return self._observed(key, {**parts, self._unit.main: [empty]}, drift, page(rest[0][1]))

    # --- in words of the site file --------------------------------------------------------------------------------------

    def _observed(self, key: str, parts: Parts, doubles: Sequence[str], url: str | None = None) -> Observed[D]:
        unit, main = self._unit, parts[self._unit.main][0]
        site: str = key.partition("/")[0]
        name: str = key.partition("/")[2]
        values: dict[str, Any] = {"site": site, "name": name, **_properties(unit.model, unit.main, main)}
        ids = {unit.main.noun: identity(main)}
        nested = _on_interfaces(parts) if unit.main is DEVICE else {}
        for kind in unit.kinds:
            for record in parts[kind] if kind is not unit.main else ():
                ids |= _name_and_id(kind, record)
            if kind.listed:
                model = unit.model_of(kind)
                items = [self._item(model, kind, one, nested.get(identity(one), {})) for one in parts[kind]]
                values[kind.listed] = tuple(items)
        if unit.main is DEVICE:
            kind_of = main.get("device_type")
            values["manufacturer"] = word(kind_of.get("manufacturer")) if isinstance(kind_of, dict) else ""
        mark, drift = mark_of(main), [*_drift(name, parts), *doubles]
        owner: Owner = "foreign" if mark != unit.mark(key) else "adopted" if is_adopted(main) else "created"
        return Observed(
            key, unit.model.model_construct(**values), {noun: number for noun, number in ids.items() if number},
            url or page(main) or "", owner, tuple(drift),
        )  # fmt: skip

    def _item(self, model: type[M], kind: Kind, record: Record, nested: Mapping[str, Any]) -> M:
        values = {**_properties(model, kind, record), **nested}
        if kind is INTERFACE:
            tagged = record.get("tagged_vlans")
            values["untagged_vlan"] = self._vlan(record.get("untagged_vlan"))
            values["tagged_vlans"] = tuple(self._vlan(one) or "" for one in tagged) if isinstance(tagged, list) else ()
        if "name" in model.model_fields and "name" not in values:
            values["name"] = _name(kind, record)
        return model.model_construct(**values)

    def _vlan(self, nested: JsonValue) -> str | None:
        """A VLAN by its name in the site file, not by what somebody renamed it to: that is the VLAN's drift, not each port's."""
        if not isinstance(nested, dict):
            return None
        whole = self._view.get(VLAN, identity(nested))
        return VLAN.words_of(mark_of(whole) if whole else None).get("name", str(nested.get("name")))


def _properties(model: type[BaseModel], kind: Kind, record: Record) -> dict[str, Any]:
    """The properties that the fields of a record fill; what is empty as the model has it."""
    values: dict[str, Any] = {}
    for one in kind.fields:
        if one.fills in model.model_fields and values.get(one.fills) is None:
            values[one.fills] = one.read_back(record)
    return {name: _empty(model, name) if value is None else value for name, value in values.items()}


@cache
def _empty(model: type[BaseModel], name: str) -> object:
    """What a property is where NetBox has nothing: None where it may be, else the empty value of its type."""
    annotation = model.model_fields[name].annotation
    if annotation is NoneType or NoneType in get_args(annotation):
        return None
    return annotation() if annotation in (str, int, float, bool) else ""


def _name(kind: Kind, record: Record) -> str:
    """A thing by its mark, else by what NetBox says of it."""
    found = kind.words_of(mark_of(record)).get("name") or record.get("description") or record.get("start_address")
    return str(found or "")


def _name_and_id(kind: Kind, record: Record) -> dict[str, int]:
    """The record's id by its name among the ids of its unit."""
    if not kind.noun:
        return {}
    held = {one.fills: word(record.get(one.name)) for one in kind.fields if one.fills}
    words = {"name": _name(kind, record), "interface": identity(record), **kind.words_of(mark_of(record)), **held}
    return {kind.noun.format_map(words): identity(record)}


def _on_interfaces(parts: Parts) -> dict[int, dict[str, Any]]:
    """What hangs on the interfaces of a device, by their ids. A cable whose far end is gone is no cable to anything."""
    found: dict[int, dict[str, Any]] = {identity(one): {"addresses": (), "cable": None} for one in parts[INTERFACE]}
    for address in parts[IP_ADDRESS]:
        if (holder := found.get(_number(address, "assigned_object_id"))) is not None:
            holder["addresses"] += (str(address.get("address")),)
    for cable in parts[CABLE]:
        ends = [_end(cable, side) for side in ("a_terminations", "b_terminations")]
        for mine, far in (ends, ends[::-1]):
            if mine and far and (holder := found.get(mine[0])) is not None and holder["cable"] is None:
                holder["cable"] = CableTo.model_construct(device=far[1], interface=far[2])
                break
    return found


def _number(record: Record, name: str) -> int:
    value = plain(record.get(name))
    return value if isinstance(value, int) else 0


def _end(record: Record, side: str) -> tuple[int, str, str] | None:
    """One end: interface id, device name, interface name."""
    ends = record.get(side)
    if not isinstance(ends, list) or len(ends) != 1 or not isinstance(ends[0], dict):
        return None
    thing = ends[0].get("object")
    device = thing.get("device") if isinstance(thing, dict) else None
    if not isinstance(thing, dict) or not isinstance(device, dict):
        return None
    return identity(thing), str(device.get("name")), str(thing.get("name"))


def _drift(name: str, parts: Parts) -> list[str]:
    """What is wrong with records of ours that the unit's properties do not show."""
    ids = {kind: {identity(one) for one in records} for kind, records in parts.items()}
    found = []
    for kind, records in parts.items():
        for field in kind.fields if any(one.drift for one in kind.fields) else ():
            for record in records if field.drift else ():
                if mark_of(record) is None or field.name not in record:
                    continue
                value = plain(record[field.name])
                if field.to is None and not same(value, field.constant):
                    found.append(f"{kind.describe(record)} {field.drift.format(value)}")
                elif field.to in ids and value not in ids[field.to]:
                    found.append(f"{kind.describe(record)} {field.drift.format(name)}")
                elif field.to is not None and field.to not in ids and value is None:
                    found.append(f"{kind.describe(record)} {field.drift}")
    return found


def _hangs_on_something(kind: Kind, record: Record) -> bool:
    """False for a cable without an end: NetBox leaves it when a device is deleted by hand, and nobody misses it."""
    return kind is not CABLE or len(cable_ends(kind.plain(record))) == 2


def _singled(parts: Parts) -> tuple[dict[Kind, Sequence[Record]], list[str]]:
    """The records without their doubles (same mark, higher id), and the doubles in words. The next apply deletes them."""
    kept: dict[Kind, Sequence[Record]] = {}
    doubles: list[str] = []
    for kind, records in parts.items():
        first: dict[str | None, Record] = {}
        more = [record for record in records if first.setdefault(mark_of(record), record) is not record]
        doubles += [f"{kind.describe(record)} is there twice" for record in more]
        kept[kind] = list(first.values())
    return kept, doubles
