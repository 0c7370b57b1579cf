"""Between the typed words of plan and drivers (pydantic models) and the properties of a Pulumi resource.

A list of things that have a name becomes an object keyed by that name, so that a diff reads ``interfaces.eth0.mtu`` and inserting
one thing is one change. Fields at their default are left out: what a person did not say is not in the state.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, Generic, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from pinion.provider.plugin import (
    Checked,
    Failure,
    Properties,
    Value,
    has_secret,
    has_unknown,
    mark_like,
    plain,
    plain_properties,
    property_path,
)

Model = TypeVar("Model", bound=BaseModel)
#: Said about the site file, for messages: kept in the state, never compared.
ORIGIN: Final = "origin"
#: Plainer than pydantic's words.
_REASONS: Final = {"extra_forbidden": "there is no such property", "missing": "is missing"}


class Shape(Generic[Model]):
    """How *model* looks as properties. *identities*: the field that names each model that stands in a list."""

    def __init__(self, model: type[Model], identities: Mapping[type[BaseModel], str]) -> None:
        self.model = model
        self.identities = identities

    def properties(self, value: Model) -> dict[str, Value]:
        """*value* as properties, without what is at its default."""
        return self._fold(self.model, value.model_dump(mode="json", exclude_defaults=True))

    def check(self, news: Properties) -> Checked:
        """Everything wrong with *news*, with property paths; else the same in canonical form. Unknowns and secrets stay what they are."""
        twice = list(self._contradictions(self.model, news, ()))
        if twice:
            return Checked(news, twice)
        stated = {key: value for key, value in news.items() if key != ORIGIN or ORIGIN in self.model.model_fields}
        origin = {ORIGIN: news[ORIGIN]} if ORIGIN in news and ORIGIN not in stated else {}
        try:
            value = self.model.model_validate(self._unfold(self.model, plain(stated)))
        except ValidationError as error:
            failures = [
                failure
                for problem in error.errors(include_url=False)
                if (failure := self._failure(problem["loc"], _REASONS.get(problem["type"], problem["msg"]), stated))
                is not None
            ]
            return Checked(news, failures)
        return Checked(mark_like({**self.properties(value), **origin}, news))

    def value(self, properties: Properties) -> Model:
        """The model that *properties* (checked ones) state; others than its own are ignored. `ValidationError` when they don't fit."""
        own = {key: value for key, value in plain_properties(properties).items() if key in self.model.model_fields}
        return self.model.model_validate(self._unfold(self.model, own))

    # --- lists and objects --------------------------------------------------------------------------------------------

    def _fold(self, model: type[BaseModel], dumped: Mapping[str, JsonValue]) -> dict[str, Value]:
        folded: dict[str, Value] = {}
        for name, value in dumped.items():
            item, is_list = _item_model(model, name)
            if value is None:
                continue  # Pulumi knows no difference between null and absent
            if item is None:
                folded[name] = value
            elif isinstance(value, Mapping):
                folded[name] = self._fold(item, value)
            elif is_list and isinstance(value, Sequence) and item in self.identities:
                key = self.identities[item]
                rows = [self._fold(item, row) for row in value if isinstance(row, Mapping)]
                folded[name] = {str(row[key]): {k: v for k, v in row.items() if k != key} for row in rows}
            else:
                folded[name] = value
        return folded

    def _unfold(self, model: type[BaseModel], stated: Value) -> Value:
        if not isinstance(stated, Mapping):
            return stated
        unfolded: dict[str, Value] = dict.fromkeys(_nullable(model))
        for name, value in stated.items():
            item, is_list = _item_model(model, name)
            if item is None or not isinstance(value, Mapping):
                unfolded[name] = value
            elif is_list and item in self.identities:
                key = self.identities[item]
                unfolded[name] = [
                    {key: name_of, **row} if isinstance(row := self._unfold(item, inner), Mapping) else row
                    for name_of, inner in value.items()
                ]
            else:
                unfolded[name] = self._unfold(item, value)
        return unfolded

    def _contradictions(self, model: type[BaseModel], stated: Properties, steps: tuple[str, ...]) -> Iterable[Failure]:
        """Things that stand under one name and state another."""
        for name, value in stated.items():
            item, is_list = _item_model(model, name)
            if item is None or not isinstance(value, Mapping):
                continue
            if not is_list:
                yield from self._contradictions(item, value, (*steps, name))
                continue
            identity = self.identities.get(item, "")
            for key, inner in value.items():
                if not isinstance(inner, Mapping):
                    continue
                if identity in inner and plain(inner[identity]) != key:
                    reason = f"contradicts the key {key!r} that it stands under (it is {plain(inner[identity])!r})"
                    yield Failure(property_path((*steps, name, key, identity)), reason)
                yield from self._contradictions(item, inner, (*steps, name, key))

    def _failure(self, location: Sequence[str | int], message: str, stated: Properties) -> Failure | None:
        """The failure at *location* of the unfolded value; None when an unknown value is all that is wrong there."""
        steps: list[str | int] = []
        here: Value = stated
        for step in location:
            if isinstance(step, int) and isinstance(here, Mapping):
                step = list(here)[step]  # the list was an object: back to its key
            steps.append(step)
            if isinstance(here, Mapping) and isinstance(step, str):
                here = here.get(step)
            elif isinstance(here, Sequence) and not isinstance(here, str) and isinstance(step, int):
                here = here[step] if step < len(here) else None
            else:
                here = None
        if has_unknown(here):
            return None
        is_text_or_number = isinstance(here, str | int | float) and not has_secret(here)
        return Failure(property_path(steps), f"{message} (it is {here!r})" if is_text_or_number else message)


@cache
def _item_model(model: type[BaseModel], name: str) -> tuple[type[BaseModel] | None, bool]:
    """The model inside field *name*, and whether it stands in a list there."""
    field = model.model_fields.get(name)
    if field is None:
        return None, False
    found = _models_in(field.annotation)
    return next(iter(found), (None, False))


@cache
def _nullable(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields of *model* that must be stated and may be None: absent means None."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if field.is_required() and type(None) in get_args(field.annotation)
    )


def _models_in(annotation: object, *, in_list: bool = False) -> Iterable[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, in_list
    elif get_origin(annotation) in (tuple, list):
        for argument in get_args(annotation):
            yield from _models_in(argument, in_list=True)
    elif get_origin(annotation) in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _models_in(argument, in_list=in_list)


def overlay(wanted: Value, actual: Value, changed: Sequence[Sequence[str]]) -> Value:
    """*wanted*, with what is *actual* wherever one of the *changed* paths (steps without list positions) leads or passes.

    So only what a driver would really change counts as drift: what it leaves to the other side on purpose does not.
    """
    if any(not path for path in changed):
        return actual
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        merged: dict[str, Value] = {}
        for key in (*wanted, *(key for key in actual if key not in wanted)):
            below = [path[1:] for path in changed if path[0] == key]
            if not below:
                if key in wanted:
                    merged[key] = wanted[key]
                continue
            result = overlay(wanted.get(key), actual.get(key), below)
            if result is not None:
                merged[key] = result
        return merged
    return actual if changed else wanted
