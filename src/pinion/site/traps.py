"""What to write instead of a plain scalar that readers of YAML take for different things: it follows from what the key takes. Pure."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from pinion.site.errors import Path
from pinion.site.examples import as_text, example
from pinion.site.fixes import Fix, Put, as_entry, quoted, take_away, write
from pinion.site.model_paths import annotation_at, plain_type

_TRUTH = {
    "y": "true",
    "yes": "true",
    "on": "true",
    "true": "true",
    "n": "false",
    "no": "false",
    "off": "false",
    "false": "false",
}


def fixed(code: str, text: str, path: Path) -> Fix:
    """What to write instead of *text*, which the tree refuses as *code*, at *path*."""
    annotation = annotation_at(path)
    if code == "YAML-014":
        return _value(path, annotation)
    kind = plain_type(annotation)
    if kind is bool and text.lower() in _TRUTH:
        return write("write {}", _TRUTH[text.lower()], Put.VALUE)
    if kind in {int, float}:
        return _number(text, whole=kind is int)
    return as_text(text, path, {})


def fixed_key(text: str, path: Path) -> Fix:
    """What to write instead of the key *text* of the mapping at *path*: the number of a node without zeros before it, else text."""
    kind = plain_type(annotation_at(path))
    number = get_origin(kind) is dict and plain_type(get_args(kind)[0]) is int and text.strip("0").isdigit()
    if number:
        return write("write {}", text.lstrip("0"), Put.KEY)
    return write("put the key in quotes: {}", quoted(text), Put.KEY)


def _value(path: Path, annotation: Any) -> Fix:  # noqa: ANN401 - annotations have no type of their own
    if path and isinstance(path[-1], str):
        key, glued = path[-1], re.fullmatch(r"(\w+) ([0-9]\S*)", path[-1])
        if glued is not None:
            return write("write {}", as_entry(glued[1], glued[2]), Put.KEY)
        if annotation is not None:
            return write(
                "write its value, such as {}, or take the key away", as_entry(key, example(path, {})), Put.BESIDE
            )
    return take_away("write the value behind it, or take it away")


def _number(text: str, *, whole: bool) -> Fix:
    """The decimal numbers that *text* may mean; of a leading zero nobody can tell whether it makes it octal."""
    digits, found = text.replace("_", "").lower(), list[int | float]()
    # Python's own bases: decimal, what 0o, 0x or 0b says, and octal where a zero leads.
    for base in (10, 0, *([8] if digits.startswith("0") else [])):
        try:
            found.append(int(digits, base))
        except ValueError:
            continue
    if not found:
        try:
            found.append(float(digits))
        except ValueError:
            found = []
    numbers = [f"{int(number)}" if number == int(number) else f"{number}" for number in found if abs(number) < 10**18]
    if whole:
        numbers = [number for number in numbers if number.lstrip("-").isdigit()]
    chosen = tuple(dict.fromkeys(numbers))
    if not chosen:
        return Fix("write a plain decimal number")
    return Fix(f"write a plain decimal number: {' or '.join(chosen)}", chosen, Put.VALUE)
