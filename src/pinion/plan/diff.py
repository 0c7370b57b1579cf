"""What changes between two plans, in terms of named things: `devices.pi-05.interfaces.eth0.addresses`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, JsonValue

from pinion.plan.model import Plan

#: Keys by which the elements of a list are told apart, in order of preference.
_IDENTITY = ("name", "slug", "vid", "prefix", "key", "path")


class Difference(BaseModel):
    """One change. *before* is None for something new, *after* is None for something gone."""

    model_config = ConfigDict(frozen=True)

    path: str
    before: JsonValue
    after: JsonValue

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.path} {_short(self.after)}"
        if self.after is None:
            return f"- {self.path} {_short(self.before)}"
        return f"~ {self.path} {_short(self.before)} -> {_short(self.after)}"


def differences(old: Plan, new: Plan) -> tuple[Difference, ...]:
    """Every change from *old* to *new*; a thing that is wholly new or gone is one difference. Contents of secret files are not shown."""
    return tuple(_walk("", old.model_dump(mode="json"), new.model_dump(mode="json")))


def _walk(path: str, old: JsonValue, new: JsonValue) -> Iterator[Difference]:
    if old == new:
        return
    if _secret(old) or _secret(new):
        yield Difference(path=path, before=_without_secrets(old), after=_without_secrets(new))
        return
    left, right = _keyed(old), _keyed(new)
    if left is None or right is None:
        yield Difference(path=path, before=old, after=new)
        return
    for key in [*left, *(key for key in right if key not in left)]:
        inner = f"{path}.{key}" if path else key
        if key not in right:
            yield Difference(path=inner, before=_without_secrets(left[key]), after=None)
        elif key not in left:
            yield Difference(path=inner, before=None, after=_without_secrets(right[key]))
        else:
            yield from _walk(inner, left[key], right[key])


def _secret(value: JsonValue) -> bool:
    return isinstance(value, dict) and value.get("secret") is True


def _without_secrets(value: JsonValue) -> JsonValue:
    """*value* with the secrets hidden that it holds at any depth."""
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()} | (
            {"content": "(secret, not shown)"} if _secret(value) else {}
        )
    return value


def _keyed(value: JsonValue) -> dict[str, JsonValue] | None:
    """A mapping as it is, a list of identified things as a mapping by identity, anything else as None."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not value:
        return {} if value == [] else None
    for identity in _IDENTITY:
        if all(isinstance(item, dict) and identity in item for item in value):
            return {str(item[identity]): item for item in value if isinstance(item, dict)}
    return None


def _short(value: JsonValue) -> str:
    if isinstance(value, dict):
        return " ".join(
            f"{key}={_short(value[key])}" for key in ("kind", "primary_address", "vid", "address") if value.get(key)
        )
    return value if isinstance(value, str) else json.dumps(value)
