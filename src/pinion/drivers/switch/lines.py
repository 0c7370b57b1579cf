"""The configuration lines that differ between two texts of a switch, for a person. Pure; knows no switch system."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

#: The lines that open a block: one, and of a block within another that one's before it.
_Headers = tuple[str, ...]


def config_lines(old: str, new: str) -> Iterator[str]:
    """The lines that differ, each under the unchanged header of its block: ``interface Ethernet3``, ``-   switchport access vlan 102``.

    A line that stands alone is a block without lines. Lines of ``!`` only part blocks.
    """
    has, needs = _blocks(old), _blocks(new)
    for headers in _in_order(list(has), list(needs)):
        before, after = has.get(headers), needs.get(headers)
        if before == after:
            continue
        outer = "   " * (len(headers) - 1)
        yield from (f" {'   ' * depth}{header}" for depth, header in enumerate(headers[:-1]))
        if before is None or after is None:
            sign, lines = ("+", after) if before is None else ("-", before)
            yield f"{sign}{outer}{headers[-1]}"
            yield from (f"{sign}{outer}   {line}" for line in lines or ())
            continue
        yield f" {outer}{headers[-1]}"
        yield from (f"-{outer}   {line}" for line in before if line not in after)
        yield from (f"+{outer}   {line}" for line in after if line not in before)


def _in_order(old: list[_Headers], new: list[_Headers]) -> Iterator[_Headers]:
    """All headers in the order of *new*; one of *old* alone follows the one that it followed there."""
    kept = set(new)
    following: dict[_Headers | None, list[_Headers]] = {}
    last: _Headers | None = None
    for headers in old:
        if headers in kept:
            last = headers
        else:
            following.setdefault(last, []).append(headers)
    yield from following.get(None, ())
    for headers in new:
        yield headers
        yield from following.get(headers, ())


def _blocks(text: str) -> dict[_Headers, list[str]]:
    """The lines of each block by its headers. A line inside a block opens one of its own when further ones stand deeper below it."""
    told = [line for line in text.splitlines() if line.strip("! ")]
    found: dict[_Headers, list[str]] = {}
    open_at: list[tuple[int, str]] = []
    for line, following in pairwise([*told, ""]):
        depth, following_depth = _depth(line), _depth(following)
        open_at = [header for header in open_at if header[0] < depth]
        if depth == 0 or following_depth > depth:
            open_at.append((depth, line.strip()))
            found[tuple(header for _, header in open_at)] = []
        else:
            found[tuple(header for _, header in open_at)].append(line.strip())
    return found


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
