"""Which records of a NetBox can name which: read from the server's own schema, so that what a plugin or a later release adds is in it.

`core/object-types/` says which kinds of object there are and where the REST API lists them; the OpenAPI document says which of their
fields name another object (a foreign key, or a pair such as `assigned_object_type` and `assigned_object_id`) and by which filter they are
asked for. A plugin's field that its serializer hides, and a kind without a list in the API, are in neither: they can't be seen.

The document has some 15 MB and takes NetBox some 10 s to write. What we need of it is kept in a file (`$PINION_CACHE`, else the user's
cache folder) named by address, release, plugins and kinds of object: when one of these changes, the document is read anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue, TypeAdapter, ValidationError

from pinion.drivers.netbox.errors import RefusedError

#: Prefixes of the names of components that show an object in short.
_SHORT = ("Brief", "Nested")
#: Of the format of the file; another one is not read.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that names another object.

    *field*: its name, for a pair without `_type` and `_id`. *targets*: content types it may name, empty for any. *pair*: whether it is one.
    *by*: the filter that takes ids, None when there is none (then the list is read whole). *optional*: it may be empty.
    """

    field: str
    targets: tuple[str, ...]
    pair: bool
    by: str | None
    optional: bool


@dataclass(frozen=True, slots=True)
class EndPoint:
    """A list of the REST API: *path* below `/api/`, *name* of one record in NetBox's words, the fields that name other objects."""

    content_type: str
    path: str
    name: str
    references: tuple[Reference, ...]


class Asking(Protocol):
    """What reading a schema needs of a server."""

    @property
    def url(self) -> str:
        """The server's address."""

    def document(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Mapping[str, JsonValue]:
        """One object of JSON below `/api/`."""

    def listing(self, path: str, query: Sequence[tuple[str, str]]) -> list[dict[str, JsonValue]]:
        """All records of a list below `/api/`."""


_FILE = TypeAdapter(tuple[EndPoint, ...])
_FIELDS = ("id", "app_label", "model", "model_name", "rest_api_endpoint")


def end_points(server: Asking) -> tuple[EndPoint, ...]:
    """Every list of *server* with the fields that name other objects. Raises `NetBoxError` when its schema can't be had or read."""
    status = server.document("status/")
    types = server.listing("core/object-types", [("fields", ",".join(_FIELDS))])
    lists = {str(one["rest_api_endpoint"]): one for one in types if one.get("rest_api_endpoint")}
    kinds = sorted((path, _content_type(one)) for path, one in lists.items())
    known = [_FORMAT, server.url, status.get("netbox-version"), status.get("plugins"), kinds]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]
    file = _folder() / f"netbox-schema-{digest}.json"
    try:
        return _FILE.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        pass
    # NetBox keeps its answer for a day, by address: the digest in it makes the answer one of these plugins.
    document = server.document("schema/", [("format", "json"), ("for", digest)])
    found = read(document, lists, server.url)
    _keep(file, found)
    return found


def read(
    document: Mapping[str, JsonValue], lists: Mapping[str, Mapping[str, JsonValue]], url: str = ""
) -> tuple[EndPoint, ...]:
    """The end points of an OpenAPI *document*. *lists*: the object types by their address in it. `RefusedError` for one that it lacks."""
    paths, components = _at(document, "paths"), _at(document, "components", "schemas")
    shapes: dict[str, str] = {}
    for address, kind in lists.items():
        if address not in paths:
            what = f"NetBox's schema (api/schema/) says nothing of {kind.get('model_name')}"
            raise RefusedError(what, "what refers to what can't be known", url)
        if (shape := _shape(_at(paths, address, "get"), components)) is not None:
            shapes[address] = shape  # some addresses take writes only: there is no list to ask
    lists = {address: lists[address] for address in shapes}
    names: dict[str, set[str]] = {}
    for address, kind in lists.items():
        for word in (shapes[address].lower(), str(kind.get("model"))):
            names.setdefault(word, set()).add(_content_type(kind))
    return tuple(
        EndPoint(
            _content_type(kind),
            address.rpartition("/api/")[2].strip("/"),
            str(kind.get("model_name")),
            tuple(_references(_at(paths, address, "get"), shapes[address], components, names)),
        )
        for address, kind in sorted(lists.items())
    )


def _references(
    operation: Mapping[str, JsonValue], shape: str, components: Mapping[str, JsonValue], names: Mapping[str, set[str]]
) -> Iterator[Reference]:
    filters = _filters(operation)
    fields = _at(components, shape, "properties")
    for name, value in fields.items():
        schema = value if isinstance(value, dict) else {}
        stem = name.removesuffix("_id")
        other = fields.get(f"{stem}_type")
        if stem != name and isinstance(other, dict) and other.get("type") == "string":
            yield Reference(stem, (), True, name if name in filters else None, bool(schema.get("nullable")))
            continue
        targets = _targets(name, schema, components, names)
        if targets is not None:
            by = f"{name}_id" if f"{name}_id" in filters else name if filters.get(name) == "integer" else None
            yield Reference(name, tuple(sorted(targets)), False, by, bool(schema.get("nullable")))


def _targets(
    name: str, schema: Mapping[str, JsonValue], components: Mapping[str, JsonValue], names: Mapping[str, set[str]]
) -> set[str] | None:
    """Content types that a field may name, empty for any; None when it names no object."""
    if (component := _component(schema)) is not None:
        held = _at(components, component, "properties")
        if "id" not in held:
            return None  # a choice: value and label
        short = next((component.removeprefix(one) for one in _SHORT if component.startswith(one)), component)
        return names.get(short.lower(), set())
    if schema.get("type") == "integer":  # a bare id
        return names.get(name.removesuffix("_id").replace("_", ""))
    return None


def _filters(operation: Mapping[str, JsonValue]) -> dict[str, str]:
    """Filters of a list by name, with the type of what they take."""
    found: dict[str, str] = {}
    parameters = operation.get("parameters")
    for one in parameters if isinstance(parameters, list) else ():
        if isinstance(one, dict) and one.get("in") == "query":
            schema = _at(one, "schema")
            found[str(one.get("name"))] = str(_at(schema, "items").get("type") or schema.get("type"))
    return found


def _shape(operation: Mapping[str, JsonValue], components: Mapping[str, JsonValue]) -> str | None:
    """Name of the component of one record of a list."""
    answer = _at(operation, "responses", "200", "content", "application/json", "schema")
    page = _component(answer)
    return _component(_at(components, page, "properties", "results", "items")) if page else None


def _component(schema: Mapping[str, JsonValue]) -> str | None:
    """Name of the component that a schema is, also when it is wrapped to carry more (`allOf`)."""
    for word in ("allOf", "oneOf", "anyOf"):
        if isinstance(inner := schema.get(word), list):
            found = [name for one in inner if isinstance(one, dict) and (name := _component(one)) is not None]
            return found[0] if found else None
    target = schema.get("$ref")
    return target.rpartition("/")[2] if isinstance(target, str) else None


def _at(value: JsonValue | Mapping[str, JsonValue], *keys: str) -> Mapping[str, JsonValue]:
    """What lies below *keys*, empty when nothing does."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _content_type(kind: Mapping[str, JsonValue]) -> str:
    return f"{kind.get('app_label')}.{kind.get('model')}"


def _folder() -> Path:
    if given := os.environ.get("PINION_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pinion"


def _keep(file: Path, found: Iterable[EndPoint]) -> None:
    """Write the file whole. Without it the next run reads the document again, which is all that is lost."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps([asdict(one) for one in found]))
        part.replace(file)
    except OSError:
        with suppress(OSError):
            part.unlink()
