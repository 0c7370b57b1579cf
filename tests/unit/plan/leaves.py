"""Every leaf of the site model, and other values for the leaves of a site file. Both are derived from the model, none is listed by hand."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pinion.site.model import Site
from pinion.site.statement import Statement

KeyPath = tuple[str | int, ...]
#: Takes a key out.
UNSTATED = object()


def _plain(annotation: Any) -> Any:
    """*annotation* without its metadata and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in {Union, UnionType}:
            (annotation,) = (each for each in get_args(annotation) if each is not type(None))
        else:
            return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Statement)


def leaves(annotation: Any = Site, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all leaves of the model; ``*`` stands for any name or item, but not where the model knows the names."""
    kind = _plain(annotation)
    if get_origin(kind) is dict:
        name, value = get_args(kind)
        names = get_args(_plain(name)) if get_origin(_plain(name)) is Literal else ("*",)
        for each in names:
            yield from leaves(value, (*path, each))
    elif _is_model(kind) and kind.model_fields:
        for name, field in kind.model_fields.items():
            yield from leaves(field.annotation, (*path, name))
    elif get_origin(kind) is tuple and _is_model(_plain(get_args(kind)[0])):
        yield from leaves(get_args(kind)[0], (*path, "*"))
    elif not (get_origin(kind) is Literal and len(get_args(kind)) == 1):  # what has one value cannot be another
        yield path


def stated(data: Any, leaf: tuple[str, ...], path: KeyPath = ()) -> Iterator[KeyPath]:
    """Where the site file *data* states *leaf*."""
    if not leaf:
        yield path
        return
    step, rest = leaf[0], leaf[1:]
    if isinstance(data, Mapping):
        for key, value in data.items():
            if step in {"*", str(key)}:
                yield from stated(value, rest, (*path, key))
    elif isinstance(data, list) and step == "*":
        for at, value in enumerate(data):
            yield from stated(value, rest, (*path, at))


def annotation_of(leaf: tuple[str, ...]) -> Any:
    """What the model takes at *leaf*."""
    found: Any = Site
    for step in leaf:
        kind = _plain(found)
        if get_origin(kind) is dict:
            found = get_args(kind)[1]
        elif get_origin(kind) is tuple:
            found = get_args(kind)[0]
        else:
            found = kind.model_fields[step].annotation
    return _plain(found)


def _names(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _names(value)
    elif isinstance(data, list):
        for value in data:
            yield from _names(value)
    elif isinstance(data, str):
        yield data


def others(kind: Any, value: Any, words: list[str]) -> Iterator[Any]:
    """Values other than *value* that *kind* may take; not all of them mean something. *words* are all that the site file says."""
    yield UNSTATED
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (value + 1, value - 1, value * 2, value / 2 if isinstance(value, float) else value // 2)
    elif get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        yield from (each for each in (get_args(kind) or [str(one) for one in kind]) if each != value)
    elif isinstance(value, list):
        inner = _plain(get_args(kind)[0])
        yield from ([*value[:at], *value[at + 1 :]] for at in range(len(value)))
        yield from ([*value[:-1], other] for other in others(inner, value[-1], words) if other is not UNSTATED)
    elif isinstance(value, str):
        for at in [found.start() for found in re.finditer("[0-9]", value)][::-1]:
            yield f"{value[:at]}{(int(value[at]) + 1) % 10}{value[at + 1 :]}"
        yield from (word for word in words if word != value)
        for at in [found.start() for found in re.finditer("[a-z]", value)][::-1]:
            yield f"{value[:at]}{'b' if value[at] == 'a' else 'a'}{value[at + 1 :]}"


def changed(
    data: Mapping[str, Any], leaf: tuple[str, ...], path: KeyPath, known: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The site file *data* with another value at *path*, which is a *leaf*; *known* are names that it need not say itself."""
    value: Any = data
    for step in path:
        value = value[step]
    words = list(dict.fromkeys([*known, *_names(data)]))
    for other in others(annotation_of(leaf), value, words):
        made = copy.deepcopy(dict(data))
        parent: Any = made
        for step in path[:-1]:
            parent = parent[step]
        if other is UNSTATED:
            del parent[path[-1]]
        else:
            parent[path[-1]] = other
        yield made
