"""Problems of a site file: what they are called, how they read, and how they are collected.

`errors.yml` beside this module is the one truth for every code: its title, what is wrong, and the fix, with placeholders in braces.
The reference page and the error tests follow from it. No message is written anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import resources
from itertools import islice

import yaml

Path = tuple[str | int, ...]

#: More problems than this help nobody; the last one then says so.
MAXIMUM_PROBLEMS = 200
#: Longest text of the user that a message repeats.
_SHOWN = 60
#: Placeholders that hold whole sentences or lists of ours rather than one word of the user's, and their longest text.
_SENTENCES, _SENTENCE = (
    frozenset({"boards", "example", "fix", "hint", "known", "ports", "prefixes", "why", "wrong"}),
    400,
)
#: As difflib counts likeness, from 0 to 1.
NEAR = 0.6
#: Names that are compared when a suggestion is looked for, and shown when there is none.
_COMPARED, _LISTED = 400, 8


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. *wrong* and *fix* are sentences with placeholders; *title* says it without them."""

    code: str
    topic: str
    title: str
    wrong: str
    fix: str


@cache
def catalogue() -> dict[str, Kind]:
    """Every kind of problem by its code, in the order of `errors.yml`."""
    text = (resources.files("pinion.site") / "errors.yml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    topics: dict[str, dict[str, dict[str, str]]] = yaml.load(text, Loader=loader)
    return {
        code: Kind(code=code, topic=topic, **kind) for topic, kinds in topics.items() for code, kind in kinds.items()
    }


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a site file: its *code*, where it stands (*line* and *column* from 1), the *key*, what is wrong, and the fix."""

    code: str
    file: str
    line: int
    column: int
    key: str
    message: str
    fix: str

    def __str__(self) -> str:
        """Two lines: where and what; then the fix."""
        return f"{self.file}:{self.line}:{self.column} {self.code} {self.message}\n    fix: {self.fix}"

    def as_dict(self) -> dict[str, str | int]:
        """The problem for JSON."""
        return asdict(self)


class SiteErrors(Exception):  # noqa: N818 - the plural is the point: all problems of a file at once
    """A site file that cannot be used, with every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def shown(value: object, limit: int = _SHOWN) -> str:
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


@dataclass(slots=True)
class Report:
    """Collects the problems of one file. *position* turns a key's path into its line and column.

    What is *silent* has been reported as a YAML mistake already, so that its value means nothing.
    """

    file: str
    position: Callable[[Path, bool], tuple[int, int]] | None = None
    silent: Callable[[Path], bool] | None = None
    _found: dict[tuple[object, ...], Problem] = field(default_factory=dict)
    full: bool = False

    def at(self, code: str, line: int, column: int, path: Path = (), /, **said: object) -> None:
        """Add the problem *code* at a place; *said* fills its placeholders."""
        self._add(code, line, column, path, said)

    def _add(self, code: str, line: int, column: int, path: Path, said: Mapping[str, object]) -> None:
        """The same problem twice counts once."""
        if self.full:
            return
        if len(self._found) >= MAXIMUM_PROBLEMS:
            self.full = True
            code, said = "FILE-003", {"limit": MAXIMUM_PROBLEMS}
        kind = catalogue()[code]
        words = {name: shown(value, _SENTENCE if name in _SENTENCES else _SHOWN) for name, value in said.items()}
        problem = Problem(
            code=code,
            file=self.file,
            line=line,
            column=column,
            key=".".join(map(str, path)),
            message=kind.wrong.format_map(words),
            fix=kind.fix.format_map(words),
        )
        self._found.setdefault((code, line, column, problem.message), problem)

    def on(self, code: str, path: Path, /, **said: object) -> None:
        """Add the problem *code* at the value of *path*, unless it is faulty; a value that is missing is placed at its nearest parent."""
        if self.silent is None or not self.silent(path):
            self._put(code, path, False, said)

    def on_key(self, code: str, path: Path, /, **said: object) -> None:
        """Add the problem *code* at the key of *path*."""
        self._put(code, path, True, said)

    def _put(self, code: str, path: Path, at_key: bool, said: dict[str, object]) -> None:
        assert self.position is not None, "the report has no tree yet"
        if self.full:
            return
        line, column = self.position(path, at_key)
        self._add(code, line, column, path, said)

    def line(self, path: Path) -> tuple[int, int]:
        """Where the value at *path* stands, to tell which of two came first."""
        assert self.position is not None
        return self.position(path, False)

    def near(self, word: object, known: Iterable[str], least: float = NEAR) -> str | None:
        """The one of *known* that *word* was probably meant to be, in capitals or not; *least* is how much alike they must be."""
        if self.full:
            return None
        names = {name.casefold(): name for name in islice(known, _COMPARED)}
        near = get_close_matches(str(word)[:_SHOWN].casefold(), names, n=1, cutoff=least)
        return names[near[0]] if near else None

    def hint(self, word: object, known: Iterable[str]) -> str:
        """``did you mean 'x'?`` when one of *known* is near *word*, else the list of them."""
        names = list(known)
        near = self.near(word, names)
        return f"did you mean '{shown(near)}'?" if near is not None else f"write one of: {listed(names)}"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in the order of the file."""
        return tuple(sorted(self._found.values(), key=lambda problem: (problem.line, problem.column, problem.code)))
