"""Stated properties against a live object: what became of each field that was stated, and of no other."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from pinion.provider.plugin import Properties, Secret, Unknown, Value, mark_like

#: What the API server adds to an object's metadata and nobody states.
_SERVER_METADATA = {
    "creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid",
}  # fmt: skip


def as_live(stated: Value, live: Value) -> Value:
    """*stated* with every value as it is in *live*; what is missing there is left out. Secrets stay secret.

    Lists are compared by position, and what *live* has beyond the stated ones is kept: it is a difference. Fields of a mapping that
    were not stated are someone else's and left out.
    """
    if isinstance(stated, Secret):
        return Secret(as_live(stated.value, live))
    if isinstance(stated, Mapping):
        if not isinstance(live, Mapping):
            return {} if live is None and not stated else live
        return {key: as_live(value, live.get(key)) for key, value in stated.items() if key in live or _is_empty(value)}
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        if not isinstance(live, Sequence) or isinstance(live, str):
            return [] if live is None and not stated else live
        common = [as_live(ours, theirs) for ours, theirs in zip(stated, live, strict=False)]
        return [*common, *live[len(stated) :]]
    return stated if isinstance(stated, Unknown) else live


def _is_empty(value: Value) -> bool:
    """Whether the API server may drop *value* without a difference in meaning."""
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and not value


def live_inputs(inputs: Properties, live: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs of a resource as the live object has them."""
    found = {key: as_live(value, live.get(key)) for key, value in inputs.items() if key != "stringData"}
    texts = inputs.get("stringData")
    if texts is not None:
        found["stringData"] = _decoded(texts, live.get("data"))
    return {key: value for key, value in found.items() if value is not None}


def _decoded(stated: Value, data: Value) -> Value:
    """A Secret's ``stringData`` (which the API server never shows) as its ``data`` has it."""
    if isinstance(stated, Secret):
        return Secret(_decoded(stated.value, data))
    if not isinstance(stated, Mapping) or not isinstance(data, Mapping):
        return {}
    texts = {key: _text(data[key]) for key in stated if key in data}
    return mark_like(texts, stated)


def _text(encoded: Value) -> str:
    try:
        return base64.b64decode(str(encoded), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def imported_inputs(live: Mapping[str, Value]) -> dict[str, Value]:
    """Inputs that would state *live*, for an import: without what only the API server writes."""
    found = {key: value for key, value in live.items() if key not in {"status", "metadata"}}
    metadata = live.get("metadata")
    if isinstance(metadata, Mapping):
        found["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    return found


def without_nulls(value: Value) -> Value:
    """*value* without the properties that are null: for the API server both mean "not stated"."""
    if isinstance(value, Secret):
        return Secret(without_nulls(value.value))
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_nulls(item) for item in value]
    return value
