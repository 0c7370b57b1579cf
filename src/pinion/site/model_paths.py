"""What the model says of a key's path: which model stands there, what the key means, which bounds its number has."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pinion.site.errors import Path
from pinion.site.model import Site
from pinion.site.statement import Statement


def _step(annotation: Any, step: str | int) -> Any:  # noqa: ANN401 - annotations have no type of their own
    """The annotation of *step* inside *annotation*; None when there is none."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in {Union, UnionType}:
        return next((found for choice in get_args(annotation) if (found := _step(choice, step)) is not None), None)
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, Statement):
        field = annotation.model_fields.get(str(step))
        return None if field is None else Annotated[field.annotation, field]
    return None


def annotation_at(path: Path) -> Any:  # noqa: ANN401
    """What the model takes at *path* of a site file, with its metadata; None where it knows nothing there."""
    annotation: Any = Site
    for step in path:
        annotation = _step(annotation, step)
    return annotation


def plain_type(annotation: Any) -> Any:  # noqa: ANN401
    """*annotation* without its metadata, and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in {Union, UnionType}:
            annotation = next(choice for choice in get_args(annotation) if choice is not type(None))
        else:
            return annotation


def model_at(path: Path) -> type[Statement] | None:
    """The model of the mapping at *path* of a site file; None when the model knows no mapping there."""
    found = plain_type(annotation_at(path))
    return found if isinstance(found, type) and issubclass(found, Statement) else None


def model_of(path: Path) -> type[Statement] | None:
    """The model that has the key at *path*; None when that is a name or an item and no key of a model."""
    model = model_at(path[:-1]) if path else None
    return model if model is not None and str(path[-1]) in model.model_fields else None


@cache
def homes() -> dict[str, list[Path]]:
    """Where the model has each of its keys, by the keys that lead there; ``*`` stands for a name."""
    found: dict[str, list[Path]] = {}
    queue: list[tuple[Path, Any]] = [((), Site)]
    while queue:
        path, annotation = queue.pop(0)
        kind = plain_type(annotation)
        if get_origin(kind) is dict:
            queue.append(((*path, "*"), get_args(kind)[1]))
        elif isinstance(kind, type) and issubclass(kind, Statement):
            for key in kind.model_fields:
                found.setdefault(key, []).append(path)
            queue += [((*path, name), field.annotation) for name, field in kind.model_fields.items()]
    return found


def meaning(path: Path) -> str:
    """What the model says of the key at *path*, in a few words."""
    annotation = annotation_at(path)
    return str(get_args(annotation)[1].description or "") if get_origin(annotation) is Annotated else ""


def bounds(path: Path) -> str:
    """The bounds of the number at *path*: ``from 1 to 4094``."""
    limits = bounds_at(annotation_at(path))
    low = f"from {limits['ge']}" if "ge" in limits else ""
    high = f"to {limits['le']}" if "le" in limits else "upwards"
    return f"{low} {high}".strip()


def bounds_at(annotation: Any) -> dict[str, object]:  # noqa: ANN401
    """The bounds in *annotation*: of a number the lowest (``ge``) and the highest (``le``) that it may be."""
    limits: dict[str, object] = {}
    choices = [annotation]
    while choices:
        choice = choices.pop()
        if get_origin(choice) in {Union, UnionType}:
            choices.extend(get_args(choice))
        elif get_origin(choice) is Annotated:
            inner, *metadata = get_args(choice)
            choices.append(inner)
            for item in [*metadata, *(more for each in metadata for more in getattr(each, "metadata", ()))]:
                for name in ("ge", "le"):
                    if (limit := getattr(item, name, None)) is not None:
                        limits[name] = limit
    return limits
