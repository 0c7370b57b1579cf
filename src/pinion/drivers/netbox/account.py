"""The account of a run: each write as a change in words of the unit."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.matching import Match, is_adopted
from pinion.drivers.netbox.plain import page
from pinion.drivers.netbox.resolve import Resolver
from pinion.drivers.netbox.results import Change
from pinion.drivers.netbox.store import Record
from pinion.drivers.netbox.units import Item, Unit
from pinion.drivers.netbox.words import (
    describe,
    end_word,
    joined,
    path_in_unit,
    served_word,
    site_word,
    unit_of,
    unit_words,
)


def created(item: Item, record: Record | None, resolver: Resolver) -> None:
    """Note a new record; None in a preview."""
    want = item.want
    shown: dict[str, JsonValue] = {
        path or "value": resolver.show(want.body[name]) for name, path in want.paths.items() if name in want.body
    }
    item.unit.changes.append(Change(want.path, "add", None, shown, want.label, page(record) if record else None))


def updated(item: Item, found: Match, patch: Mapping[str, JsonValue], resolver: Resolver) -> None:
    """Note what *patch* changes in the words of the unit."""
    want, where = item.want, page(found.record)
    for name in patch:
        if name in ("id", "custom_fields") or name not in found.differing:
            continue
        value = want.body[name] if name in want.body else want.late.get(name)
        item.unit.changes.append(
            Change(
                joined(want.path, want.paths.get(name)),
                "update",
                site_word(name, _word(found.record, name)),
                site_word(name, resolver.show(value)),
                want.label,
                where,
            )
        )
    if found.predecessor is not None:
        succeeded(item, found.record, found.predecessor)
    elif "add_tags" in patch or "custom_fields" in patch:
        item.unit.changes.append(
            Change(want.path, "update", "not marked as Pinion's", "marked as Pinion's", want.label, where)
        )


def _word(record: Record, name: str) -> JsonValue:
    if name == "assigned_object_id" and isinstance(record.get("assigned_object"), Mapping):
        return end_word({"object": record["assigned_object"]})
    return served_word(record.get(name))


def succeeded(item: Item, record: Record, predecessor: str) -> None:
    """Note that a record became this unit's. What comes along with the unit's main object needs no word of its own."""
    unit, want = item.unit, item.want
    if want.mark == unit.mark:
        unit.predecessor = unit_of(predecessor)
    elif unit.predecessor == unit_of(predecessor):
        return
    if want.mark == unit.mark:
        before, after = unit_words(predecessor), unit_words(want.mark)
    elif unit_of(predecessor) == unit.mark:
        before, after = f"as {predecessor}", f"as {want.mark}"
    else:
        before, after = f"of {unit_words(predecessor)}", f"of {unit_words(want.mark)}"
    unit.changes.append(Change(want.path, "update", before, after, want.label, page(record)))


def removed(unit: Unit, kind: Kind, record: Record, path: str | None = None) -> None:
    """Note a deletion, and if it was there before us. *path*: where in the unit, when the record is not one of its own."""
    where = path_in_unit(unit.mark, record) if path is None else path
    shown = f"{record.get('display')}, which was there before Pinion" if is_adopted(record) else record.get("display")
    unit.changes.append(Change(where, "remove", shown, None, describe(kind, record), page(record)))
