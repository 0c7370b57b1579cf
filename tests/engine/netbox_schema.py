"""What NetBox says of its own kinds: the object types and the OpenAPI document of the in-memory NetBox, in the shapes of the real ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pinion.drivers.netbox.server.schema import EndPoint, Reference


def object_types(ends: Iterable[EndPoint]) -> list[dict[str, Any]]:
    """What `core/object-types/` lists; the last has no list in the API, as many of NetBox's have none."""
    found = [
        {"app_label": app, "model": model, "model_name": one.name, "rest_api_endpoint": f"/api/{one.path}/"}
        for one in ends
        for app, _, model in [one.content_type.partition(".")]
    ]
    found.append({"app_label": "sessions", "model": "session", "model_name": "session", "rest_api_endpoint": None})
    return [{"id": number, **one} for number, one in enumerate(found, 1)]


def openapi(ends: Iterable[EndPoint]) -> dict[str, Any]:
    """What `schema/` answers, as far as lists go."""
    lists = list(ends)
    shapes: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for one in lists:
        name = _shape(one.content_type)
        shapes[name] = {"properties": {key: value for each in one.references for key, value in _fields(each)}}
        shapes[f"Brief{name}"] = {"properties": {"id": {"type": "integer"}, "url": {"type": "string", "format": "uri"}}}
        page = {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}
        shapes[f"Paginated{name}List"] = {"properties": {"results": page}}
        answer = {"application/json": {"schema": {"$ref": f"#/components/schemas/Paginated{name}List"}}}
        filters = [
            {"in": "query", "name": each.by, "schema": {"type": "array", "items": {"type": "integer"}}}
            for each in one.references
            if each.by
        ]
        paths[f"/api/{one.path}/"] = {"get": {"parameters": filters, "responses": {"200": {"content": answer}}}}
    return {"openapi": "3.0.3", "paths": paths, "components": {"schemas": shapes}}


def _shape(content_type: str) -> str:
    return content_type.partition(".")[2].capitalize()


def _fields(one: Reference) -> list[tuple[str, dict[str, Any]]]:
    if one.pair:
        return [
            (f"{one.field}_type", {"type": "string", "nullable": one.optional}),
            (f"{one.field}_id", {"type": "integer", "nullable": one.optional}),
        ]
    target = {"$ref": f"#/components/schemas/Brief{_shape(one.targets[0])}"}
    return [(one.field, {"allOf": [target], "nullable": one.optional})]
