"""Changes of a site file's text: where the value, the key or the entry at a path stands, and what of the text goes with it. Pure.

Comments stay, but for those on the lines of what is taken away.
"""

from __future__ import annotations

from pinion.site.errors import Path
from pinion.site.fixes import Edit, Put
from pinion.site.tree import Entry, Mapping, Node, Sequence, entry_at

_Place = tuple[int, int]


def edit(root: Mapping, put: Put, path: Path, texts: tuple[str, ...]) -> Edit | None:
    """The change that puts one of *texts* where *put* says, at *path* of *root*; None where that path does not stand in the file."""
    if put in {Put.ENTRY, Put.BESIDE}:
        return _entry(root, path if put is Put.ENTRY else path[:-1], texts)
    found = entry_at(root, path)
    if found is None:
        return None
    if put is Put.NOTHING:
        return _removal(root, path)
    if put is Put.KEY:
        return Edit(found.line, found.column, *found.end, texts)
    return _value(found, texts)


def _value(found: Entry, texts: tuple[str, ...]) -> Edit:
    node = found.node
    start, end = (node.line, node.column), _end(node)
    if start == end:  # nothing stands behind the key, or behind the hyphen
        return Edit(*start, *end, tuple(f" {text}" for text in texts))
    if isinstance(node, (Mapping, Sequence)) and not node.flow and found.end != (0, 0):
        return Edit(*found.end, *end, tuple(f": {text}" for text in texts))
    return Edit(*start, *end, texts)


def _end(node: Node) -> _Place:
    """Where *node* ends. Of a block collection the parser says only where the next thing begins."""
    if isinstance(node, Mapping) and not node.flow and node.entries:
        return max(_end(entry.node) for entry in node.entries.values())
    if isinstance(node, Sequence) and not node.flow and node.items:
        return _end(node.items[-1])
    return node.end


def _entry(root: Mapping, path: Path, texts: tuple[str, ...]) -> Edit | None:
    """Each of *texts* is an entry of the mapping at *path*: it takes the place of one with its key, or is a new one."""
    key = texts[0].partition(":")[0]
    stated = entry_at(root, (*path, key))
    if stated is not None:
        return _value(stated, tuple(text.partition(":")[2].strip() for text in texts))
    home: Node = root
    if path:
        found = entry_at(root, path)
        if found is None:
            return _entry(root, path[:-1], tuple(f"{path[-1]}: {{{text}}}" for text in texts))
        home = found.node
    if not isinstance(home, Mapping):
        return None
    if home.flow:
        more = ", " if home.entries else ""
        return Edit(home.line, home.column + 1, home.line, home.column + 1, tuple(f"{text}{more}" for text in texts))
    line, column = home.line, home.column
    return Edit(line, column, line, column, tuple(f"{text}\n{' ' * (column - 1)}" for text in texts))


def _removal(root: Mapping, path: Path) -> Edit | None:
    above = entry_at(root, path[:-1])
    home: Node = root if not path[:-1] or above is None else above.node
    assert isinstance(home, (Mapping, Sequence))
    before, member, after = _neighbours(home, path[-1])
    start, end = (member.line, member.column), _end(member.node)
    if before is None and after is None:
        if home.flow:
            return Edit(*start, *end, ("",))
        return _value(above, ("{}" if isinstance(home, Mapping) else "[]",)) if above is not None else None
    if before is None:
        assert after is not None
        return Edit(*start, after.line, after.column, ("",))
    if home.flow:
        return Edit(*_end(before.node), *end, ("",))
    # A block scalar ends where the next line begins.
    return Edit(start[0], 1, end[0] if end[1] == 1 else end[0] + 1, 1, ("",))


def _neighbours(home: Mapping | Sequence, step: str | int) -> tuple[Entry | None, Entry, Entry | None]:
    """The member of *home* at *step*, and those before and after it. No further than there is looked."""
    if isinstance(home, Sequence):
        index = int(step)
        before = _item(home, index - 1) if index > 0 else None
        return before, _item(home, index), _item(home, index + 1) if index + 1 < len(home.items) else None
    before = None
    entries = iter(home.entries.items())
    for key, entry in entries:
        if key == str(step):
            return before, entry, next((following for _, following in entries), None)
        before = entry
    raise KeyError(step)


def _item(home: Sequence, index: int) -> Entry:
    return Entry(home.items[index].line, home.items[index].column, home.items[index])
