"""What the model says of a key's path: which model stands there, what the key means, which bounds its number has."""

from __future__ import annotations

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


def _at(path: Path) -> Any:  # noqa: ANN401
    annotation: Any = Site
    for step in path:
        annotation = _step(annotation, step)
    return annotation


def model_at(path: Path) -> type[Statement] | None:
    """The model of the mapping at *path* of a site file; None when the model knows no mapping there."""
    choices = [_at(path)]
    while choices:
        choice = choices.pop()
        if get_origin(choice) is Annotated:
            choices.append(get_args(choice)[0])
        elif get_origin(choice) in {Union, UnionType}:
            choices.extend(get_args(choice))
        elif isinstance(choice, type) and issubclass(choice, Statement):
            return choice
    return None


def meaning(path: Path) -> str:
    """What the model says of the key at *path*, in a few words."""
    annotation = _at(path)
    return str(get_args(annotation)[1].description or "") if get_origin(annotation) is Annotated else ""


def bounds(path: Path) -> str:
    """The bounds of the number at *path*: ``from 1 to 4094``."""
    limits: dict[str, object] = {}
    choices = [_at(path)]
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
    low = f"from {limits['ge']}" if "ge" in limits else ""
    high = f"to {limits['le']}" if "le" in limits else "upwards"
    return f"{low} {high}".strip()
