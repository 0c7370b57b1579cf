"""What a plain (unquoted) scalar of YAML means: what every reader takes alike, and what YAML 1.1 and 1.2 read differently. Pure."""

from __future__ import annotations

import json
import re

Plain = str | int | float | bool

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})$")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}$")
#: What some readers of YAML take for something else than text, by the code of the problem.
_TRAPS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("YAML-014", re.compile(r"(~|null|Null|NULL)?$")),
    ("YAML-015", re.compile(r"(y|n|yes|no|on|off|true|false)$", re.IGNORECASE)),
    (
        "YAML-016",
        re.compile(r"[-+]?(0o[0-7_]+|0x[0-9a-f_]+|0b[01_]+|[0-9][0-9_]*|[0-9][0-9_]*\.[0-9_]+)$", re.IGNORECASE),
    ),
    ("YAML-017", re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$")),
    ("YAML-018", re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?$")),
    (
        "YAML-019",
        re.compile(r"[-+]?(\.inf|\.nan|\.[0-9_]+|[0-9][0-9_]*\.|([0-9][0-9_]*)?\.?[0-9]+e[-+]?[0-9]+)$", re.IGNORECASE),
    ),
)
#: Of traps that begin with a letter, the longest (``false``); all others begin with a digit or a sign.
_LONGEST_WORD = 5
#: Text that needs no quotes anywhere in a file: no indicator of YAML, and nothing that ends a value in a flow collection.
_SAFE = re.compile(r"[A-Za-z0-9_/.](?:[A-Za-z0-9_/.+%@~-]|:(?=[A-Za-z0-9_/])| (?=[A-Za-z0-9_/.]))*")


def meaning(text: str) -> Plain | None:
    """The value of a plain scalar that every reader of YAML takes alike and that is not text; None otherwise."""
    if text[:1].isalpha():
        return {"true": True, "false": False}.get(text)
    if _WHOLE.match(text):
        return int(text)
    if _DECIMAL.match(text):
        return float(text)
    return None


def trap(text: str) -> str | None:
    """The code of the trap that the plain scalar *text* is, None when it is text to every reader."""
    if len(text) > _LONGEST_WORD and text[0].isalpha():  # most of a file: a name
        return None
    return next((code for code, pattern in _TRAPS if pattern.match(text)), None)


def written(text: str) -> str:
    """*text* as YAML that every reader takes for that text, in quotes where it needs them."""
    if _SAFE.fullmatch(text) and meaning(text) is None and trap(text) is None:
        return text
    return json.dumps(text, ensure_ascii=False)
