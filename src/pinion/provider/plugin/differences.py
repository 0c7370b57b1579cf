"""What differs between two sets of properties, leaf by leaf, named by Pulumi's property paths (``spec.ports[0].port``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, TypeGuard

from pinion.provider.plugin.values import Properties, Secret, Value

Step: TypeAlias = str | int
_PLAIN_STEP = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_STEP_IN_TEXT = re.compile(r'\.?([A-Za-z_$*][A-Za-z0-9_$-]*)|\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]')


class Kind(Enum):
    """How a property changes. The replacing kinds cannot be done in place."""

    ADD = "ADD"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    ADD_REPLACE = "ADD_REPLACE"
    DELETE_REPLACE = "DELETE_REPLACE"
    UPDATE_REPLACE = "UPDATE_REPLACE"

    @property
    def replacing(self) -> Kind:
        """The same change, as one that needs a new object."""
        return self if self.replaces else Kind(f"{self.value}_REPLACE")

    @property
    def replaces(self) -> bool:
        """Whether the object must be replaced."""
        return self.value.endswith("_REPLACE")


@dataclass(frozen=True)
class Difference:
    """All changes by property path. Empty means equal. *delete_before_replace*: two of it cannot exist at once."""

    changes: Mapping[str, Kind] = field(default_factory=dict)
    delete_before_replace: bool = False

    @property
    def replaces(self) -> list[str]:
        """The paths that need a new object."""
        return [path for path, kind in self.changes.items() if kind.replaces]


def property_path(steps: Sequence[Step]) -> str:
    """Pulumi's text for *steps*: ``("interfaces", "eth0/1", "addresses", 0)`` is ``interfaces["eth0/1"].addresses[0]``."""
    parts: list[str] = []
    for step in steps:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_STEP.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{escaped}"]')
    return "".join(parts)


def path_steps(text: str) -> tuple[Step, ...]:
    """The steps of a property path; the inverse of `property_path`. ``*`` stands for any one step. `ValueError` when malformed."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP_IN_TEXT.match(text, position)
        if match is None:
            raise ValueError(f"not a property path: {text!r}")
        word, quoted, index = match.groups()
        if word is not None:
            steps.append(word)
        elif quoted is not None:
            steps.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            steps.append(int(index) if index != "*" else "*")
        position = match.end()
    return tuple(steps)


def _agree(steps: tuple[Step, ...], pattern: tuple[Step, ...]) -> bool:
    return all(want in ("*", step) for step, want in zip(steps, pattern, strict=False))


def _below(steps: tuple[Step, ...], pattern: tuple[Step, ...]) -> bool:
    return len(steps) >= len(pattern) and _agree(steps, pattern)


def differences(
    olds: Properties,
    news: Properties,
    *,
    replace: Sequence[str] = (),
    ignore: Sequence[str] = (),
    delete_before_replace: bool = False,
) -> Difference:
    """Compare deeply and name each changed leaf by its property path, in path order.

    *replace* and *ignore* are property paths that stand for themselves and everything below; ``*`` is any one step. Whether a
    value is secret is no difference. An object that one side lacks is named once, not leaf by leaf.
    """
    replacing = [path_steps(text) for text in replace]
    ignored = [path_steps(text) for text in ignore]
    changes: dict[str, Kind] = {}
    for steps, kind in _walk(olds, news, ()):
        if any(_below(steps, pattern) for pattern in ignored):
            continue
        # An object that comes or goes as a whole takes its replacing leaves with it, hence no length check.
        replaces = any(_agree(steps, pattern) for pattern in replacing)
        changes[property_path(steps)] = kind.replacing if replaces else kind
    return Difference(dict(sorted(changes.items())), delete_before_replace)


def _walk(old: Value, new: Value, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Kind]]:
    if isinstance(old, Secret):
        old = old.value
    if isinstance(new, Secret):
        new = new.value
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            if key not in new:
                yield (*steps, key), Kind.DELETE
            elif key not in old:
                yield (*steps, key), Kind.ADD
            else:
                yield from _walk(old[key], new[key], (*steps, key))
    elif _is_list(old) and _is_list(new):
        yield from _walk_lists(old, new, steps)
    elif type(old) is not type(new) and isinstance(old, bool) | isinstance(new, bool):
        yield steps, Kind.UPDATE  # True == 1 in Python
    elif old != new:
        yield steps, Kind.UPDATE


def _walk_lists(
    old: Sequence[Value], new: Sequence[Value], steps: tuple[Step, ...]
) -> Iterator[tuple[tuple[Step, ...], Kind]]:
    for index in range(max(len(old), len(new))):
        if index >= len(new):
            yield (*steps, index), Kind.DELETE
        elif index >= len(old):
            yield (*steps, index), Kind.ADD
        else:
            yield from _walk(old[index], new[index], (*steps, index))


def _is_list(value: Value) -> TypeGuard[Sequence[Value]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
