"""NVUE configuration text (``nv config show``, ``/etc/nvue.d/startup.yaml``) as a tree, each statement with its line.

NVUE joins what is equal: ``swp1-4,swp7`` and ``10,20-22`` as a key stand for each of these. The tree has them one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

#: Below these keys, keys are lists of names or numbers.
_LISTS = frozenset({"interface", "vlan", "traffic-class", "switch-priority", "dscp", "pcp"})
_PART = re.compile(
    r"(?P<stem>[A-Za-z_]*)(?P<first>\d+)(?P<suffix>(?:s\d+)?)(?:-(?P<last_stem>[A-Za-z_]*)(?P<last>\d+))?"
)
#: More names than any switch has ports or VLANs.
_MOST = 4096


class NotNvueError(ValueError):
    """The text is no NVUE configuration; *line* (from 1) tells where."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        super().__init__(reason)


@dataclass(slots=True)
class Node:
    """One statement: a *value* (text, as it is written), or *children* by key; *line* is where its key stands."""

    line: int
    value: str | None = None
    children: dict[str, Node] = field(default_factory=dict)

    def at(self, *keys: str) -> Node | None:
        """What stands below *keys*, None when nothing does."""
        found: Node | None = self
        for key in keys:
            found = found.children.get(key) if found is not None else None
        return found

    def below(self, *keys: str) -> dict[str, Node]:
        """The children of what stands below *keys*."""
        found = self.at(*keys)
        return found.children if found is not None else {}

    def text(self, *keys: str) -> str | None:
        """The value of what stands below *keys*."""
        found = self.at(*keys)
        return found.value if found is not None else None

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Every statement without children, with its path from here."""
        if not self.children and path:
            yield path, self
        for key, child in self.children.items():
            yield from child.leaves((*path, key))


@dataclass(slots=True)
class Tree:
    """The configuration below ``set``; *twice* are the lines of keys that a former one is the same as, with the former line."""

    root: Node
    twice: list[tuple[int, int, str]]


def read_tree(text: str) -> Tree:
    """The configuration in *text*. Raises `NotNvueError`."""
    try:
        document = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise NotNvueError(line, f"is no YAML ({error.problem})") from error
    except yaml.YAMLError as error:
        raise NotNvueError(0, f"is no YAML ({error})") from error
    tree = Tree(Node(0), [])
    if document is None:
        return tree
    if not isinstance(document, yaml.SequenceNode):
        raise NotNvueError(_line(document), "is no list of `header` and `set`")
    for item in document.value:
        if not isinstance(item, yaml.MappingNode):
            raise NotNvueError(_line(item), "is neither `header` nor `set`")
        for key, value in item.value:
            if key.value == "set":
                _fill(tree, tree.root, value, lists=False)
            elif key.value != "header":
                raise NotNvueError(_line(key), f"says `{str(key.value)[:40]}`, where only `header` and `set` may stand")
    return tree


def _fill(tree: Tree, into: Node, value: yaml.Node, *, lists: bool) -> None:
    """Put what *value* says into *into*; *lists*: its keys are lists of names."""
    if isinstance(value, yaml.ScalarNode):
        into.value = None if value.tag == "tag:yaml.org,2002:null" else str(value.value)
        return
    if not isinstance(value, yaml.MappingNode):
        raise NotNvueError(_line(value), "is a list, where NVUE has none")
    written: dict[str, int] = {}
    for key, child in value.value:
        name, line = str(key.value), _line(key)
        if name in written:
            tree.twice.append((written[name], line, name))
        written.setdefault(name, line)
        for each in _names(name) if lists else (name,):
            node = into.children.setdefault(each, Node(line))
            _fill(tree, node, child, lists=name in _LISTS)


def _names(key: str) -> Iterator[str]:
    """``swp1-2,swp5`` as swp1, swp2, swp5. A key that is no such list stands for itself."""
    parts = [_PART.fullmatch(part) for part in key.split(",")]
    found: list[str] = []
    stem = ""
    for part in parts:
        if part is None:
            yield key
            return
        stem = part["stem"] or stem
        first, last = int(part["first"]), int(part["last"] or part["first"])
        if part["last_stem"] not in {None, "", stem} or not first <= last < first + _MOST:
            yield key
            return
        found += [f"{stem}{number}{part['suffix']}" for number in range(first, last + 1)]
    yield from found


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
