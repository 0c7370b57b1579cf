"""Problems of a site file: what they are called, how they read, and how they are collected.

The YAML files beside this one are the one truth for every code; docs/reference/errors.md and tests/errors follow from them, and no message
is written anywhere else. Topic -> code -> `title` (without placeholders), `wrong` (one line), `fix`. Words in braces are filled in where
the problem is found.

What stands in a fix between « and » is text that is put into the file: in the place of the value or key that the problem is about, unless
`put` says value, key, entry (of the mapping there), beside (an entry of the mapping that it is in) or nothing (what is there goes), and
`at` says the keys of another place. `choice` is why a person must choose where a fix has no text; a rule may give either
(`pinion.site.fixes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib import resources
from itertools import islice

import yaml

from pinion.site.fixes import SENTENCE, SHOWN, Edit, Fix, Put, Span, Template, one_of, shown, take_away
from pinion.site.scalars import written

Path = tuple[str | int, ...]

#: The files of the catalogue, in the order of the reference page.
_FILES = ("file", "networks", "hardware", "cluster", "hosts")
#: More problems than this help nobody; the last one then says so.
MAXIMUM_PROBLEMS = 200
#: Placeholders that hold whole sentences or lists of ours rather than one word of the user's.
_SENTENCES = frozenset({"boards", "example", "fix", "hint", "known", "once", "ports", "prefixes", "why", "wrong"})
#: As difflib counts likeness, from 0 to 1.
NEAR = 0.6
#: Names that are compared when a suggestion is looked for.
_COMPARED = 400


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem.

    Attributes:
        title: what is wrong, without placeholders.
        wrong: the same as a sentence with placeholders.
        fix: what to do about it, with placeholders.
        put: where the text of the fix goes; None: to the key where the problem is one of a key, else to the value.
        at: the keys of the place that the text goes to, with placeholders; None: where the problem is.
        choice: why a person must choose where the fix has no text.
    """

    code: str
    topic: str
    title: str
    wrong: str
    fix: Template
    put: Put | None = None
    at: tuple[str, ...] | None = None
    choice: str = ""

    def said(self) -> dict[str, str]:
        """What a person is told of this kind of problem, by its name; placeholders stand there in braces."""
        told = {"code": self.code, "topic": self.topic, "title": self.title}
        names = _Placeholders()
        return {
            **told,
            "wrong": self.wrong.format_map(names),
            "fix": self.fix.words.format_map(names),
            "choice": self.choice,
        }


class _Placeholders(dict[str, str]):
    """Fills each placeholder with its own name in braces."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


@cache
def catalogue() -> dict[str, Kind]:
    """Every kind of problem by its code, in the order of the files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Kind] = {}
    for name in _FILES:
        text = (resources.files("pinion.site.errors") / f"{name}.yml").read_text(encoding="utf-8")
        topics: dict[str, dict[str, dict[str, str]]] = yaml.load(text, Loader=loader)
        found |= {code: _kind(code, topic, stated) for topic, kinds in topics.items() for code, stated in kinds.items()}
    return found


def _kind(code: str, topic: str, stated: Mapping[str, str]) -> Kind:
    return Kind(
        code=code,
        topic=topic,
        title=stated["title"],
        wrong=stated["wrong"],
        fix=Template.of(stated["fix"]),
        put=Put(stated["put"]) if "put" in stated else None,
        at=tuple(stated["at"].split()) if "at" in stated else None,
        choice=stated.get("choice", ""),
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a site file: its *code*, where it stands (*line* and *column* from 1), the *key*, what is wrong, and the fix.

    *replacement* is the fix as a change of the text; None where only a person can tell what belongs there, for the reason in *choice*.
    """

    code: str
    file: str
    line: int
    column: int
    key: str
    message: str
    fix: str
    replacement: Edit | None = None
    choice: str = ""

    def __str__(self) -> str:
        """Two lines: where and what; then the fix."""
        return f"{self.file}:{self.line}:{self.column} {self.code} {self.message}\n    fix: {self.fix}"

    def as_dict(self) -> dict[str, object]:
        """The problem for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Found:
    """A problem, and what its fix puts where."""

    problem: Problem
    put: Put
    target: Path
    texts: tuple[str, ...]
    span: Span | None


class SiteErrors(Exception):  # noqa: N818 - the plural is the point: all problems of a file at once
    """A site file that cannot be used, with every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(slots=True)
class Report:
    """Collects the problems of one file. *position* turns a key's path into its line and column, *edit* a fix into a change of the text.

    What is *silent* has been reported as a YAML mistake already, so that its value means nothing.
    """

    file: str
    position: Callable[[Path, bool], tuple[int, int]] | None = None
    silent: Callable[[Path], bool] | None = None
    edit: Callable[[Put, Path, tuple[str, ...]], Edit | None] | None = None
    _found: dict[tuple[object, ...], _Found] = field(default_factory=dict)
    full: bool = False

    def at(self, code: str, line: int, column: int, path: Path = (), /, **said: object) -> None:
        """Add the problem *code* at a place; *said* fills its placeholders."""
        self._add(code, line, column, path, said, Put.VALUE)

    def _add(self, code: str, line: int, column: int, path: Path, said: Mapping[str, object], put: Put) -> None:
        """The same problem twice counts once."""
        if self.full:
            return
        if len(self._found) >= MAXIMUM_PROBLEMS:
            self.full = True
            code, said = "FILE-003", {"limit": MAXIMUM_PROBLEMS}
        kind = catalogue()[code]
        words = {name: shown(value, SENTENCE if name in _SENTENCES else SHOWN) for name, value in said.items()}
        problem = Problem(
            code=code,
            file=self.file,
            line=line,
            column=column,
            key=".".join(map(str, path)),
            message=kind.wrong.format_map(words),
            fix=(kind.fix.words if kind.fix.has_text(said) else kind.fix.bare).format_map(words),
        )
        fix = _fix(kind, said)
        target = tuple(step.format_map(words) for step in kind.at) if kind.at is not None else path
        found = _Found(problem, fix.put or kind.put or put, target, fix.texts, fix.span)
        self._found.setdefault((code, line, column, problem.message), found)

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
        self._add(code, line, column, path, said, Put.KEY if at_key else Put.VALUE)

    def line(self, path: Path) -> tuple[int, int]:
        """Where the value at *path* stands, to tell which of two came first."""
        assert self.position is not None
        return self.position(path, False)

    def near(self, word: object, known: Iterable[str], least: float = NEAR) -> str | None:
        """The one of *known* that *word* was probably meant to be, in capitals or not; *least* is how much alike they must be."""
        if self.full:
            return None
        names = {name.casefold(): name for name in islice(known, _COMPARED)}
        near = get_close_matches(str(word)[:SHOWN].casefold(), names, n=1, cutoff=least)
        return names[near[0]] if near else None

    def hint(self, word: object, known: Iterable[str], beside: Collection[str] = ()) -> Fix:
        """``did you mean 'x'?`` when one of *known* is near *word*, else the list of them.

        What stands *beside* it already, in the same list or mapping, is not what was meant.
        """
        names = [name for name in known if name not in beside]
        near = self.near(word, names)
        if near is not None:
            return Fix(f"did you mean '{shown(near)}'?", (written(near),))
        return one_of(names) if names or not beside else take_away()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in the order of the file."""
        told = sorted(
            self._found.values(), key=lambda each: (each.problem.line, each.problem.column, each.problem.code)
        )
        return tuple(map(self._whole, told))

    def _whole(self, found: _Found) -> Problem:
        """The problem with its fix as a change of the text, or with the reason why there is none."""
        edit = None
        if found.texts and found.span is not None:
            edit = Edit(*found.span, found.texts)
        elif found.texts and self.edit is not None:
            edit = self.edit(found.put, found.target, found.texts)
        if edit is not None:
            return replace(found.problem, replacement=edit)
        return replace(found.problem, choice=catalogue()[found.problem.code].choice)


def _fix(kind: Kind, said: Mapping[str, object]) -> Fix:
    """The fix of a problem of *kind*: what a rule said, else what the catalogue's template makes of it."""
    stated = next((value for value in said.values() if isinstance(value, Fix)), None)
    if stated is not None:
        return stated
    if kind.put is Put.NOTHING:
        return Fix("", ("",))
    return (
        Fix("", (kind.fix.text.format_map(said),)) if kind.fix.text is not None and kind.fix.has_text(said) else Fix("")
    )
