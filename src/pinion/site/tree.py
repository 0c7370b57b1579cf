"""YAML text to a tree in which every key and value knows its line and column, and from which YAML's traps are gone.

Invariants:

* The tree is built from the parser's events, never by PyYAML's constructors: no alias is ever expanded and no tag is ever obeyed,
  so a small file cannot become large, and nothing but text, whole numbers, decimal numbers, true and false comes out.
* What YAML 1.1 and YAML 1.2 read differently (``no``, ``017``, ``1:30``, ``2026-01-31``) is refused, not guessed.
* Mistakes are collected, and reading goes on where the rest still has one meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

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
from pinion.site.errors import Path, Report
from pinion.site.fixes import Fix
from pinion.site.scalars import Plain, meaning, trap
from pinion.site.syntax import LOADER, report_syntax
from pinion.site.traps import fixed, fixed_key

#: A site file beyond this is not one: 5,000 nodes with serial numbers and MAC addresses have about 30,000 keys and values.
MAXIMUM_VALUES = 200_000
#: The deepest key of the model is at depth 5 (``pis.pi.nodes.1.port``).
MAXIMUM_DEPTH = 12


@dataclass(slots=True)
class Node:
    """A value and where it stands (counted from 1). *faulty*: a problem has been reported already, so others keep quiet."""

    line: int
    column: int
    faulty: bool = False
    #: Line and column behind it, as the parser says.
    end: tuple[int, int] = (0, 0)


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
    #: Line and column behind the key; (0, 0) for an item of a list, which has none.
    end: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Mapping(Node):
    """Keys and values in written order. Keys are always text."""

    entries: dict[str, Entry] = field(default_factory=dict)
    #: A key stood here a second time.
    doubled: bool = False
    #: In braces.
    flow: bool = False


@dataclass(slots=True)
class Sequence(Node):
    """A list."""

    items: list[Node] = field(default_factory=list)
    #: In brackets.
    flow: bool = False


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


# --- events to tree -------------------------------------------------------------------------------------------------------


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
        report_syntax(broken, text, report)
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
        for event in yaml.parse(text, Loader=LOADER):
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
                closed.node.end = _end(event)
                self._place(closed.node)
        return self._root

    def _node(self, event: NodeEvent) -> None:
        line, column = _mark(event)
        if event.anchor is not None and (event.anchor, line) not in self._anchors:
            self._anchors.add((event.anchor, line))
            self._report.at("YAML-008", line, column, self._path(), name=event.anchor)
        if isinstance(event, AliasEvent):
            self._place(Scalar(line, column, faulty=True, end=_end(event)))
            return
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._report.at("YAML-010", line, column, tag=tag)
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if len(self._stack) >= MAXIMUM_DEPTH:
                self._report.at("YAML-012", line, column, limit=MAXIMUM_DEPTH)
                raise _StoppedError
            flow = bool(event.flow_style)
            node: Mapping | Sequence = (
                Mapping(line, column, flow=flow)
                if isinstance(event, MappingStartEvent)
                else Sequence(line, column, flow=flow)
            )
            node.faulty = tag is not None or event.anchor is not None
            self._stack.append(_Frame(node))
        elif isinstance(event, ScalarEvent):
            self._place(self._scalar(event, line, column, tagged=tag is not None))

    def _scalar(self, event: ScalarEvent, line: int, column: int, *, tagged: bool) -> Scalar:
        node = Scalar(line, column, faulty=tagged, end=_end(event), value=event.value, text=event.value)
        if any("\ud800" <= letter <= "\udfff" for letter in event.value):
            self._report.at("YAML-006", line, column, character="a lone surrogate", fix=Fix("delete it"))
            node.faulty, node.value, node.text = True, "", ""
        elif event.implicit[0] and not tagged and self._stack:
            self._plain(node)
        return node

    def _plain(self, node: Scalar) -> None:
        """Give an unquoted scalar its meaning, or report the trap that it is."""
        value, code = meaning(node.text), trap(node.text)
        if self._is_key():
            if (code is not None and value is None) or isinstance(value, (bool, float)):
                self._report.at(
                    "YAML-013",
                    node.line,
                    node.column,
                    text=f"'{node.text}'",
                    fix=replace(fixed_key(node.text, self._path()[:-1]), span=(node.line, node.column, *node.end)),
                )
                # A word keeps its entry: it has one meaning, and what refers to it need not be told as missing.
                node.faulty = re.fullmatch("[a-z]+", node.text) is None
        elif value is not None:
            node.value = value
        elif code is not None:
            where = self._key_position() if code == "YAML-014" else (node.line, node.column)
            path = self._path()
            name = self._stack[-1].name or "this item"
            self._report.at(code, *where, path, text=node.text, key=name, fix=fixed(code, node.text, path))
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
        frame.key = Entry(node.line, node.column, node, node.end)
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


def _end(event: Event) -> tuple[int, int]:
    assert event.end_mark is not None
    return event.end_mark.line + 1, event.end_mark.column + 1
