"""Fixes: what to do about a problem, in words and, wherever it can be said so, as text that is put into the file.

Both come from one statement, so that they cannot disagree: a template whose part between « and » is the text, or a `Fix` that a rule makes.
What only a person can choose stays words, and the catalogue of `pinion.site.errors` says why (`choice`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import Formatter

from pinion.site.scalars import written

#: Names that are listed when there is no likely one.
_LISTED = 8
#: Longest text of the user that a message repeats, and longest text of ours.
SHOWN, SENTENCE = 60, 400


class Put(StrEnum):
    """Where a text goes: in the place of a value or of a key; as an entry (``key: value``) of the mapping that is there, or that it is in;
    or nothing takes that place."""

    VALUE = "value"
    KEY = "key"
    ENTRY = "entry"
    BESIDE = "beside"
    NOTHING = "nothing"


#: Line and column where it begins and where it ends (exclusive), all counted from 1.
Span = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a file's text: what stands from *line*, *column* up to *end_line*, *end_column* becomes any one of *texts*.

    Lines and columns count characters from 1, the end is exclusive (as in the Language Server Protocol, which counts from 0), and a byte
    order mark is no character. The first of *texts* is the likeliest.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do: *words*, and the *texts* of YAML, any one of which mends it. *put* and *span* say where; None: as the kind of problem."""

    words: str
    texts: tuple[str, ...] = ()
    put: Put | None = None
    span: Span | None = None

    def __str__(self) -> str:
        return self.words


def write(words: str, text: str, put: Put | None = None, span: Span | None = None) -> Fix:
    """*words* with *text*, which is YAML, in the place of their ``{}``."""
    return Fix(words.format(shown(text, SENTENCE)), (text,), put, span)


def one_of(names: Iterable[str], words: str = "write one of: {}") -> Fix:
    """*words* with the first of some *names* in the place of their ``{}``."""
    known = list(names)
    return Fix(words.format(listed(known)), tuple(map(written, known[:_LISTED])))


def take_away(words: str = "take it away") -> Fix:
    """Nothing belongs there."""
    return Fix(words, ("",), Put.NOTHING)


#: What stands around a part with a text, and goes with it.
_OPTIONAL = re.compile(r"\[([^\[\]]*«[^»]*»[^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Template:
    """The fix of a kind of problem: *words* with placeholders, and *text*, the part of them that is put in (None: there is none).

    *bare*: the words where a placeholder of the text has no value.
    """

    words: str
    bare: str
    text: str | None

    @classmethod
    def of(cls, stated: str) -> Template:
        """*stated* as the catalogue has it: « and » around the text, and brackets around a part that goes where the text has no value."""
        whole, bare = _OPTIONAL.sub(r"\1", stated), _OPTIONAL.sub("", stated).strip()
        text = re.search("«([^»]*)»", whole)
        return cls(re.sub("[«»]", "", whole), re.sub("[«»]", "", bare), text[1] if text is not None else None)

    def has_text(self, said: Mapping[str, object]) -> bool:
        """Whether every placeholder of the text has a value in *said*."""
        names = {name for _, name, _, _ in Formatter().parse(self.text or "") if name}
        return self.text is not None and all(said[name] is not None for name in names)


def shown(value: object, limit: int = SHOWN) -> str:
    """*value* as a message may repeat it: on one line, not too long, and nothing that a terminal would obey."""
    text = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "replace").decode()
        for letter in str(value)[: limit * 4]
    )
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(names: Iterable[str]) -> str:
    """Some names as a sentence lists them, cut off where there are many."""
    known = list(names)
    text = ", ".join(map(shown, known[:_LISTED]))
    return f"{text} … ({len(known)} in all)" if len(known) > _LISTED else text or "none"


def as_entry(key: str, text: str) -> str:
    """An entry of a mapping."""
    return f"{key}: {text}"


def quoted(text: str) -> str:
    """*text* in double quotes, as YAML and JSON both read them."""
    return json.dumps(text, ensure_ascii=False)
