"""YAML text to a tree in which every key and value knows its line and column, and from which YAML's traps are gone.

Invariants:

* The tree is built from the parser's events, never by PyYAML's constructors: no alias is ever expanded and no tag is ever obeyed,
  so a small file cannot become large, and nothing but text, whole numbers, decimal numbers, true and false comes out.
* What YAML 1.1 and YAML 1.2 read differently (``no``, ``017``, ``1:30``, ``2026-01-31``) is refused, not guessed.
* Mistakes are collected, and reading goes on where the rest still has one meaning.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from pinion.site.encoding import decode
from pinion.site.errors import Report

#: A site file beyond this is not one: 5,000 nodes with serial numbers and MAC addresses have about 30,000 keys and values.
MAXIMUM_VALUES = 200_000
#: The deepest key of the model is at depth 5 (``pis.pi.nodes.1.port``).
MAXIMUM_DEPTH = 12

Plain = str | int | float | bool
Path = tuple[str | int, ...]


@dataclass(slots=True)
class Node:
    """A value and where it starts (both counted from 1). *faulty*: a problem has been reported already, so others keep quiet."""

    line: int
    column: int
    faulty: bool = False


@dataclass(slots=True)
class Scalar(Node):
    """One value: text, a whole number, a decimal number or a truth value. *text* is the value as the person wrote it."""

    value: Plain = ""
    text: str = ""


@dataclass(slots=True)
class Entry:
    """One key of a mapping, where the key stands, and its value."""

    line: int
    column: int
    node: Node


@dataclass(slots=True)
class Mapping(Node):
    """Keys and values in written order. Keys are always text."""

    entries: dict[str, Entry] = field(default_factory=dict)
    #: A key stood here a second time.
    doubled: bool = False


@dataclass(slots=True)
class Sequence(Node):
    """A list."""

    items: list[Node] = field(default_factory=list)


def plain(node: Node) -> object:
    """*node* as dicts, lists and plain values."""
    if isinstance(node, Mapping):
        return {key: plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    assert isinstance(node, Scalar)
    return node.value


def entry_at(root: Node, path: Path) -> Entry | None:
    """The entry (of a mapping) or the item (of a list, as an entry) at *path*, None when there is no such key."""
    found: Entry | None = None
    node = root
    for step in path:
        if isinstance(node, Mapping) and str(step) in node.entries:
            found = node.entries[str(step)]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            item = node.items[step]
            found = Entry(item.line, item.column, item)
        else:
            return None
        node = found.node
    return found


# --- what a plain (unquoted) scalar means ---------------------------------------------------------------------------------

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


def _meaning(text: str) -> Plain | None:
    """The value of a plain scalar that every reader of YAML takes alike and that is not text; None otherwise."""
    if _WHOLE.match(text):
        return int(text)
    if _DECIMAL.match(text):
        return float(text)
    return {"true": True, "false": False}.get(text)


def _trap(text: str) -> str | None:
    """The code of the trap that the plain scalar *text* is, None when it is text to every reader."""
    return next((code for code, pattern in _TRAPS if pattern.match(text)), None)


# --- events to tree -------------------------------------------------------------------------------------------------------

#: The C parser where PyYAML has it (all its wheels do): about 20 times as fast, the same events.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: What the parser says, and what a person should hear.
_SYNTAX = (
    (
        "mapping values are not allowed",
        "there is a ': ' where no key can be",
        "put the text in quotes, or check the indentation of this line",
    ),
    (
        "could not find expected ':'",
        "a key has no ':' after it",
        "write 'key: value'; a text over several lines needs quotes or '|'",
    ),
    (
        "did not find expected key",
        "the indentation or a closing quote does not fit",
        "align this line with its neighbours; check quotes and commas",
    ),
    (
        "did not find expected ',' or '}'",
        "a '{' is not closed, or a ',' is missing",
        "close it with '}', or put a ',' between the entries",
    ),
    (
        "did not find expected ',' or ']'",
        "a '[' is not closed, or a ',' is missing",
        "close it with ']', or put a ',' between the entries",
    ),
    ("did not find expected '-' indicator", "the indentation of a list does not fit", "align all '-' of the list"),
    ("found unexpected end of stream", "a quote is opened and never closed", "close the quote"),
    (
        "expected alphabetic or numeric character",
        "a '*' or '&' begins the text, which means something else in YAML",
        "put the text in quotes",
    ),
    ("cannot start any token", "this character cannot begin a value", "put the value in quotes"),
    ("found character that cannot", "this character cannot begin a value", "put the value in quotes"),
    (
        "unknown escape character",
        "a backslash in double quotes starts an unknown escape",
        "use single quotes, or write two backslashes",
    ),
    ("did not find expected node content", "a value is missing here", "write the value, or take the key away"),
    (
        "block sequence entries are not allowed",
        "a '-' stands where no list can be",
        "put the list on its own lines below the key",
    ),
    (
        "did not find expected <document start>",
        "there is text after the end of the document",
        "check the indentation of this line",
    ),
)


class _StoppedError(Exception):
    """Reading cannot go on; the reason has been reported."""


@dataclass(slots=True)
class _Frame:
    """A collection that is being read. *key* is the key that waits for its value; *skip* values are read and thrown away."""

    node: Mapping | Sequence
    key: Entry | None = None
    name: str = ""
    keep: bool = True


def parse(data: bytes, report: Report) -> Mapping | None:
    """The tree of a site file, or None when it has none. Every problem goes to *report*."""
    text = decode(data, report)
    if text is None:
        return None
    try:
        root = _Builder(report).build(text)
    except yaml.MarkedYAMLError as broken:
        _report_syntax(broken, text, report)
        return None
    except yaml.YAMLError as broken:
        report.at("YAML-002", 1, 1, wrong=str(broken).splitlines()[0], fix="save the file as plain text in UTF-8")
        return None
    except _StoppedError:
        return None
    if root is None or (isinstance(root, Scalar) and root.text == ""):
        report.at("YAML-001", 1, 1)
        return None
    if not isinstance(root, Mapping):
        if not root.faulty:
            report.at("YAML-020", root.line, root.column)
        return None
    return root


#: What git and others leave in a file that could not be merged.
_MERGE_MARKER = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)
#: What begins somewhere and never ends is a mistake of the place where it begins.
_BEGINS = ("expected ':'", "',' or '}'", "',' or ']'", "unexpected end of stream")


def _report_syntax(broken: yaml.MarkedYAMLError, text: str, report: Report) -> None:
    marker = _MERGE_MARKER.search(text)
    if marker is not None:
        line, fix = (
            text.count("\n", 0, marker.start()) + 1,
            "keep one of the two sides, and take the three marked lines out",
        )
        report.at("YAML-002", line, 1, wrong=f"'{marker[1]}' marks a merge that was not finished", fix=fix)
        return
    said = f"{broken.problem or ''} {broken.context or ''}"
    opened = _open_quote(text, broken)
    if opened is not None:
        line, column, last = opened
        wrong = f"a quote is opened here, and the next one stands in line {last}"
        report.at("YAML-002", line, column, wrong=wrong, fix="close the quote at the end of the text that it begins")
        return
    mark = broken.problem_mark or broken.context_mark
    begins = broken.context_mark
    # On one line, what was begun is not what never ends: it is a ',' that is missing further on.
    if begins is not None and any(part in said for part in _BEGINS) and (mark is None or begins.line != mark.line):
        mark = begins
    wrong, fix = next(
        ((wrong, fix) for pattern, wrong, fix in _SYNTAX if pattern in said),
        (
            (broken.problem or broken.context or "it cannot be read").strip(),
            "check quotes, brackets and indentation of this line and the one before",
        ),
    )
    lines = text.splitlines()
    shown = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    glued = re.fullmatch(r" *([A-Za-z_][A-Za-z0-9_-]*):([^ ].*)", shown)
    item = re.fullmatch(r" *-([^ -].*)", shown)
    if "expected ':'" in said and glued is not None:
        wrong, fix = "there is no space after the ':' of a key", f"write {glued[1]}: {glued[2]}"
    elif "expected ':'" in said and item is not None:
        wrong, fix = "there is no space after the '-' of an item", f"write - {item[1]}"
    report.at("YAML-002", mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, wrong=wrong, fix=fix)


def _open_quote(text: str, broken: yaml.MarkedYAMLError) -> tuple[int, int, int] | None:
    """Where the last quoted text before the mistake begins, and in which line it ends, when these are two lines: its end was forgotten."""
    found = None
    with suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=_LOADER):
            if broken.problem_mark is not None and token.start_mark.index >= broken.problem_mark.index:
                break
            if isinstance(token, yaml.ScalarToken) and token.style in {"'", '"'}:
                found = token
    if found is None or found.start_mark.line == found.end_mark.line:
        return None
    return found.start_mark.line + 1, found.start_mark.column + 1, found.end_mark.line + 1


class _Builder:
    """Turns the parser's events into a tree, with a stack of its own so that no nesting can exhaust Python's."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stack: list[_Frame] = []
        self._root: Node | None = None
        self._documents = 0
        self._values = 0
        self._anchors: set[tuple[str, int]] = set()

    def build(self, text: str) -> Node | None:
        """The root of the first document; None when there is none."""
        for event in yaml.parse(text, Loader=_LOADER):
            if self._report.full:
                raise _StoppedError
            if isinstance(event, DocumentStartEvent):
                self._documents += 1
                if self._documents > 1:
                    self._report.at("YAML-011", *_mark(event))
                    if self._root is not None:
                        self._root.faulty = True  # what is missing may stand behind
                    break
            elif isinstance(event, NodeEvent):
                self._node(event)
            elif isinstance(event, CollectionEndEvent):
                closed = self._stack.pop()
                self._place(closed.node)
        return self._root

    def _node(self, event: NodeEvent) -> None:
        line, column = _mark(event)
        if event.anchor is not None and (event.anchor, line) not in self._anchors:
            self._anchors.add((event.anchor, line))
            self._report.at("YAML-008", line, column, self._path(), name=event.anchor)
        if isinstance(event, AliasEvent):
            self._place(Scalar(line, column, faulty=True))
            return
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._report.at("YAML-010", line, column, tag=tag)
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if len(self._stack) >= MAXIMUM_DEPTH:
                self._report.at("YAML-012", line, column, limit=MAXIMUM_DEPTH)
                raise _StoppedError
            node = Mapping(line, column) if isinstance(event, MappingStartEvent) else Sequence(line, column)
            node.faulty = tag is not None or event.anchor is not None
            self._stack.append(_Frame(node))
        elif isinstance(event, ScalarEvent):
            self._place(self._scalar(event, line, column, tagged=tag is not None))

    def _scalar(self, event: ScalarEvent, line: int, column: int, *, tagged: bool) -> Scalar:
        node = Scalar(line, column, faulty=tagged, value=event.value, text=event.value)
        if any("\ud800" <= letter <= "\udfff" for letter in event.value):
            self._report.at("YAML-006", line, column, character="a lone surrogate")
            node.faulty, node.value, node.text = True, "", ""
        elif event.implicit[0] and not tagged and self._stack:
            self._plain(node)
        return node

    def _plain(self, node: Scalar) -> None:
        """Give an unquoted scalar its meaning, or report the trap that it is."""
        value, trap = _meaning(node.text), _trap(node.text)
        if self._is_key():
            if (trap is not None and value is None) or isinstance(value, (bool, float)):
                self._report.at(
                    "YAML-013",
                    node.line,
                    node.column,
                    text=f"'{node.text}'",
                    fix=f'put the key in quotes: "{node.text}"',
                )
                # A word keeps its entry: it has one meaning, and what refers to it need not be told as missing.
                node.faulty = re.fullmatch("[a-z]+", node.text) is None
        elif value is not None:
            node.value = value
        elif trap is not None:
            where = self._key_position() if trap == "YAML-014" else (node.line, node.column)
            name = self._stack[-1].name or "this item"
            glued = re.fullmatch(r"(\w+) ([0-9]\S*)", name)
            fix = (
                f"write {glued[1]}: {glued[2]}"
                if glued is not None
                else "write the value behind it, or take the key away"
            )
            self._report.at(trap, *where, self._path(), text=node.text, key=name, fix=fix)
            node.faulty = True

    def _is_key(self) -> bool:
        frame = self._stack[-1] if self._stack else None
        return frame is not None and isinstance(frame.node, Mapping) and frame.key is None

    def _path(self) -> Path:
        """The keys that lead to the value that is being read."""
        return tuple(len(frame.node.items) if isinstance(frame.node, Sequence) else frame.name for frame in self._stack)

    def _key_position(self) -> tuple[int, int]:
        frame = self._stack[-1]
        return (frame.key.line, frame.key.column) if frame.key is not None else (frame.node.line, frame.node.column)

    def _place(self, node: Node) -> None:
        """Put a finished *node* where it belongs: root, list item, key or value."""
        self._values += 1
        if self._values > MAXIMUM_VALUES:
            self._report.at("FILE-002", node.line, node.column, limit=f"{MAXIMUM_VALUES} keys and values")
            raise _StoppedError
        if not self._stack:
            if self._root is None:
                self._root = node
            return
        frame = self._stack[-1]
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
        elif frame.key is None:
            self._key(frame, node)
        else:
            frame.key.node = node
            if frame.keep:
                frame.node.entries[frame.name] = frame.key
            frame.key = None

    def _key(self, frame: _Frame, node: Node) -> None:
        assert isinstance(frame.node, Mapping)
        frame.key = Entry(node.line, node.column, node)
        frame.keep = False
        if not isinstance(node, Scalar):
            frame.name = "?"
            if not node.faulty:
                self._report.at(
                    "YAML-013", node.line, node.column, text="a list or a mapping", fix="write a name as the key"
                )
            return
        frame.name = node.text
        if node.faulty:
            return
        if node.text == "<<":
            self._report.at("YAML-009", node.line, node.column)
        elif node.text in frame.node.entries:
            first = frame.node.entries[node.text]
            frame.node.doubled = True
            self._report.at("YAML-007", node.line, node.column, name=node.text, first=f"{first.line}:{first.column}")
        else:
            frame.keep = True


def _mark(event: Event) -> tuple[int, int]:
    assert event.start_mark is not None
    return event.start_mark.line + 1, event.start_mark.column + 1
