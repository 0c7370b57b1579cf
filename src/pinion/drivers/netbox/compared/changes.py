"""The account of a run: each write as a change in words of the unit."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from pinion.drivers.netbox.compared.batch import Item, Unit
from pinion.drivers.netbox.compared.matching import Match
from pinion.drivers.netbox.found.references import shown
from pinion.drivers.netbox.kinds import Kind
from pinion.drivers.netbox.kinds.marks import is_adopted, unit_of, unit_words
from pinion.drivers.netbox.kinds.values import Record, page, word
from pinion.drivers.netbox.results import Change


def created(item: Item, record: Record | None) -> None:
    """Note a new record; None in a preview."""
    want = item.want
    after: dict[str, JsonValue] = {
        one.shown or "value": shown(want.body[one.name])
        for one in want.kind.fields
        if one.shown is not None and one.name in want.body
    }
    item.unit.changes.append(Change(want.path, "add", None, after, want.label, page(record) if record else None))


def updated(item: Item, found: Match, patch: Mapping[str, JsonValue]) -> None:
    """Note what *patch* changes in the words of the unit."""
    want, where = item.want, page(found.record)
    for name in patch:
        if name not in found.differing:
            continue
        field = want.kind.column[name]
        before, after = field.site_word(_held(found.record, name)), shown({**want.body, **want.late}[name])
        path = f"{want.path}.{field.shown}" if want.path and field.shown else want.path or field.shown or ""
        item.unit.changes.append(Change(path, "update", before, field.site_word(after), want.label, where))
    if found.predecessor is not None:
        succeeded(item, found.record, found.predecessor)
    elif "add_tags" in patch or "custom_fields" in patch:
        item.unit.changes.append(
            Change(want.path, "update", "not marked as Pinion's", "marked as Pinion's", want.label, where)
        )


def _held(record: Record, name: str) -> JsonValue:
    if name == "assigned_object_id" and isinstance(record.get("assigned_object"), dict):
        return word({"object": record["assigned_object"]})
    return word(record.get(name))


def succeeded(item: Item, record: Record, predecessor: str) -> None:
    """Note that a record became this unit's. What comes along with the unit's main object needs no word of its own."""
    unit, want = item.unit, item.want
    if want.mark == unit.mark:
        unit.predecessor = unit_of(predecessor)
        before, after = unit_words(predecessor), unit_words(want.mark)
    elif unit.predecessor == unit_of(predecessor):
        return
    elif unit_of(predecessor) == unit.mark:
        before, after = f"as {predecessor}", f"as {want.mark}"
    else:
        before, after = f"of {unit_words(predecessor)}", f"of {unit_words(want.mark)}"
    unit.changes.append(Change(want.path, "update", before, after, want.label, page(record)))


def removed(unit: Unit, kind: Kind, record: Record, path: str | None = None) -> None:
    """Note a deletion, and if it was there before us. *path*: where in the unit, when the record is not one of its own."""
    where = kind.place_of(record) if path is None else path
    before = f"{record.get('display')}, which was there before Pinion" if is_adopted(record) else record.get("display")
    unit.changes.append(Change(where, "remove", before, None, kind.describe(record), page(record)))
