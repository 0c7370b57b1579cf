"""Words for what stands in a site file and for what should: small pieces of messages. Pure."""

from __future__ import annotations

import re

from pinion.site.errors import Path
from pinion.site.examples import takes
from pinion.site.model_paths import homes, model_at


def digits(text: str, path: Path) -> str | None:
    """The whole number that *text* begins with, without a unit, where *path* takes it."""
    found = re.match(r"\s*(0|[1-9][0-9]{0,17})(?![0-9])", text)
    return found[1] if found is not None and takes(path, int(found[1])) else None


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def home(key: str) -> str | None:
    """Where the key *key* belongs, as a person says it; None where no model has it, or several have."""
    found = homes().get(key, [])
    return (
        ".".join(step if step != "*" else "<name>" for step in map(str, found[0])) or "the top"
        if len(found) == 1
        else None
    )


def called(path: Path) -> str:
    """What messages call the value at *path*: its key, or the number of its item."""
    if path and isinstance(path[-1], int) and len(path) > 1 and model_at(path[:-1]) is None and path[-2] != "nodes":
        return f"{path[-2]}, item {path[-1] + 1}"
    return str(path[-1]) if path else "the site file"


def label(text: str) -> str:
    """A DNS label that resembles *text*."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:63].strip("-") or "name-1"


def inline(sentences: str) -> str:
    """The first of some *sentences* as a part of another."""
    first = sentences.split(". ")[0].rstrip(".")
    return first[0].lower() + first[1:] if first[1:2].islower() or first[1:2] == " " else first


def found(value: object) -> str:
    match value:
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return "nothing"
