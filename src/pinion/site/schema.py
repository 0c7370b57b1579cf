"""The JSON Schema of a site file, for editors: generated from the model, with the names that the catalogue knows.

An editor checks the shape only; `pinion site check` is what decides.
"""

from __future__ import annotations

import json
from typing import Any

from pinion.site.catalog import load as load_catalog
from pinion.site.model import Site

#: Model and field -> the part of the catalogue whose names it takes.
FROM_CATALOGUE = {
    ("PiGroup", "board"): "boards",
    ("PiGroup", "hat"): "hats",
    ("PiGroup", "platform"): "platforms",
    ("Switch", "model"): "switches",
    ("Switch", "platform"): "platforms",
    ("ManagementHost", "profile"): "servers",
    ("ManagementHost", "platform"): "platforms",
    ("GpuServer", "profile"): "servers",
    ("GpuServer", "platform"): "platforms",
}


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a site file."""
    made = Site.model_json_schema()
    catalogue = load_catalog()
    for (model, field), kind in FROM_CATALOGUE.items():
        made["$defs"][model]["properties"][field]["enum"] = sorted(getattr(catalogue, kind))
    made["$defs"]["PiGroup"]["properties"]["nodes"]["propertyNames"] = {"pattern": "^[1-9][0-9]*$"}
    _tidy(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "Pinion site file"}


def text() -> str:
    """The schema as the file `docs/reference/site.schema.json` holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _tidy(part: object) -> None:
    """Take out what only repeats the key (pydantic's titles), and the null that a file never states (a key without a value is refused)."""
    if isinstance(part, list):
        for item in part:
            _tidy(item)
        return
    if not isinstance(part, dict):
        return
    if isinstance(part.get("title"), str):
        del part["title"]
    if part.get("default", ...) is None:
        del part["default"]
    choices = part.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        if len(rest) == 1:
            del part["anyOf"]
            part.update({**rest[0], **part})
    for item in part.values():
        _tidy(item)
