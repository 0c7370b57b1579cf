"""The tag and the custom fields by which Pinion knows its own. Made once per NetBox, by whichever site comes first."""

from __future__ import annotations

from pinion.drivers.netbox.errors import NetBoxError, RefusedError
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import ADOPTED, CUSTOM_FIELDS, MARK, MARKED_KINDS, TAG, TAGS, Kind
from pinion.drivers.netbox.kinds.values import Body, Record, plain
from pinion.drivers.netbox.server.bulk import Writes
from pinion.drivers.netbox.server.store import RecordStore

_TYPES = sorted(kind.content_type for kind in MARKED_KINDS)


def _wanted() -> list[tuple[Kind, str, Body]]:
    field: Body = {
        "object_types": list(_TYPES), "group_name": "Pinion", "required": False, "filter_logic": "exact",
        "ui_visible": "if-set", "ui_editable": "no", "is_cloneable": False,
    }  # fmt: skip
    return [
        (TAGS, TAG, {"name": "Pinion", "slug": TAG, "color": "2f6a31", "description": "Managed by Pinion from a site file"}),
        (CUSTOM_FIELDS, MARK, {
            **field, "name": MARK, "label": "Pinion identity", "type": "text",
            "description": "Which object of which site file this is. Pinion finds its own by it.",
        }),
        (CUSTOM_FIELDS, ADOPTED, {
            **field, "name": ADOPTED, "label": "Adopted by Pinion", "type": "boolean",
            "description": "Was there before Pinion: never deleted by it.",
        }),
    ]  # fmt: skip


def ensure_foundation(store: RecordStore, view: View) -> None:
    """Make what is missing. Raises `RefusedError` when a field of ours exists but can't serve."""
    if view.marks_exist() and view.foundation_checked:
        return
    for kind, name, body in _wanted():
        found = _find(store, kind, name)
        if found is None:
            (answer,) = Writes(store).create(kind, [body])
            if isinstance(answer, NetBoxError):
                found = _find(store, kind, name)  # two first comers: the other one's will do
                if found is None:
                    raise answer.about(f"{kind.name} {name}")
            else:
                found = answer
        _check(kind, name, body, found)
    view.marks_made()


def _find(store: RecordStore, kind: Kind, name: str) -> Record | None:
    field = "slug" if kind is TAGS else "name"
    return next((one for one in store.find(kind, {}, field, [name]) if one.get(field) == name), None)


def _check(kind: Kind, name: str, body: Body, found: Record) -> None:
    if kind is TAGS:
        return
    if plain(found.get("type")) != body["type"]:
        raise RefusedError(
            f"{kind.name} {name}", f"exists with type {plain(found.get('type'))}; Pinion needs {body['type']}"
        )
    types = found.get("object_types")
    missing = sorted(set(_TYPES) - {str(one) for one in types}) if isinstance(types, list) else _TYPES
    if missing:
        raise RefusedError(
            f"{kind.name} {name}", f"exists but not for {', '.join(missing)}; add these object types to it"
        )
