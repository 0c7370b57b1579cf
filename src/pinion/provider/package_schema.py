"""The package schema of `pinion`, derived from the models that `Check` uses: for `pulumi package get-schema`, `pulumi import` and docs."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pinion.provider.cluster.node import NodeKind
from pinion.provider.cluster.release import ReleaseKind
from pinion.provider.netbox import UnitKind
from pinion.provider.plugin import ResourceKind
from pinion.provider.settings import SECRET_KEYS, STACK_KEYS, Settings
from pinion.provider.shape import ORIGIN, Shape
from pinion.provider.switch import ConfigKind

_TEXT: dict[str, object] = {"type": "string"}
_ANY: dict[str, object] = {"$ref": "pulumi.json#/Any"}
_WORDS = {"type": "object", "additionalProperties": _TEXT}


def package_schema(version: str, kinds: Mapping[str, ResourceKind]) -> dict[str, object]:
    """The schema of every resource of *kinds*, by token."""
    nested: dict[str, object] = {}
    resources: dict[str, object] = {}
    for token, kind in kinds.items():
        shape: Shape[BaseModel] = getattr(kind, "shape")  # noqa: B009 - all kinds have one, of different models
        module = token.rpartition(":")[0]
        spec = _model(shape.model, shape, module, nested, skip=())
        inputs = {
            **_dict(spec["properties"]),
            ORIGIN: {**_TEXT, "description": "The key of the site file it follows from."},
        }
        resources[token] = {
            "description": _first_line(shape.model),
            "inputProperties": inputs,
            "requiredInputs": spec["required"],
            "properties": {**inputs, **_outputs(kind)},
            "required": [],
        }
    return {
        "name": "pinion",
        "version": version,
        "description": "NetBox records, switch configuration, nodes and releases of a site.",
        "license": "Apache-2.0",
        "config": {"variables": _settings()},
        "provider": {"inputProperties": _settings()},
        "types": nested,
        "resources": resources,
    }


def _outputs(kind: ResourceKind) -> dict[str, object]:
    drift = {"drift": {**_WORDS, "description": "What is not as declared and has no property of its own."}}
    if isinstance(kind, ConfigKind):
        return {
            **drift,
            "left": {"type": "array", "items": _TEXT, "description": "What is on the switch, but not ours."},
        }
    if isinstance(kind, NodeKind):
        return {"uid": {**_TEXT, "description": "Which node it is, of those that have had the name."}}
    if isinstance(kind, ReleaseKind):
        texts = {"type": "array", "items": _TEXT}
        return {
            "digest": {**_TEXT, "description": "SHA-256 of what the chart holds."},
            "drift": {**texts, "description": "What is not as the chart says."},
            "status": {"type": "object", "additionalProperties": _ANY, "description": "What helm remembers of it."},
            "resourceNames": {"type": "object", "additionalProperties": texts, "description": "Its objects, by kind."},
        }
    assert isinstance(kind, UnitKind)
    return {
        **drift,
        "url": {**_TEXT, "description": "Its page in NetBox."},
        "owner": {**_TEXT, "description": "created, adopted or foreign."},
        "netbox_ids": {"type": "object", "additionalProperties": {"type": "integer"}},
    }


def _settings() -> dict[str, object]:
    fields = Settings.model_fields
    properties: dict[str, object] = {}
    for field in fields.values():
        key = str(field.alias)
        kind = "boolean" if field.annotation is bool else "string"
        properties[key] = {
            "type": kind,
            "secret": key in SECRET_KEYS,
            "description": f"Stack configuration {STACK_KEYS[key]}.",
        }
    return properties


def _model(
    model: type[BaseModel], shape: Shape[BaseModel], module: str, nested: dict[str, object], skip: tuple[str, ...]
) -> dict[str, object]:
    fields = {name: field for name, field in model.model_fields.items() if name not in skip}
    return {
        "type": "object",
        "description": _first_line(model),
        "properties": {name: _type(field.annotation, shape, module, nested) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if _needed(field)],
    }


def _needed(field: FieldInfo) -> bool:
    return field.is_required() and type(None) not in get_args(field.annotation)


def _type(annotation: object, shape: Shape[BaseModel], module: str, nested: dict[str, object]) -> dict[str, object]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        token = f"{module}:{annotation.__name__}"
        if token not in nested:
            identity = shape.identities.get(annotation)
            nested[token] = {}  # a placeholder, should a model hold itself
            nested[token] = _model(annotation, shape, module, nested, skip=(identity,) if identity else ())
        return {"$ref": f"#/types/{token}"}
    if origin in (tuple, list):
        inner = _type(arguments[0], shape, module, nested)
        keyed = arguments[0] in shape.identities
        return {"type": "object", "additionalProperties": inner} if keyed else {"type": "array", "items": inner}
    if origin in (Union, types.UnionType):
        return _type(next(one for one in arguments if one is not type(None)), shape, module, nested)
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return dict(_TEXT)
    if origin is dict:
        inner = _TEXT if arguments[1] is str else _ANY
        return {"type": "object", "additionalProperties": inner}
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0], shape, module, nested)
    names = {bool: "boolean", int: "integer", float: "number"}
    return {"type": names.get(annotation, "string") if isinstance(annotation, type) else "string"}


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value
