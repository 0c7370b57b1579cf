"""Every number of the files that has to do with traffic classes, and the same files with another number there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from pinion.checks.fabric.artefacts import Artefact

#: Digits that are a number: no part of a name, of an address or of a longer word.
_NUMBER = re.compile(r"(?<![\w./-])\d+(?:\.\d+)?(?![\w./])")
#: What of the files is about traffic classes, VLANs of ports and MTU; the rest (names, addresses, rings) is for other checks.
_LINES = {
    ".yaml": re.compile(
        r"\s*(('\d+'|access|vlan|mtu|bw-percent|traffic-class|switch-priority|pcp|(min|max)-threshold|probability|cable-length"
        r"|memory-percent|polling-interval|robustness):.*)"
    ),
    ".cfg": re.compile(
        r"\s*(qos map|uc-tx-queue|bandwidth|random-detect|priority-flow-control|switchport (access|trunk)|(l2 )?mtu)\b.*"
    ),
    ".link": re.compile(r"MTUBytes=.*"),
    ".json": re.compile(r'\s*("(mtu|tos)"|"\d+"|\d+).*'),
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One number changed: *line* of the file *path* was *before* and is *after*; *artefacts* are all files with it."""

    path: str
    line: int
    before: str
    after: str
    artefacts: tuple[Artefact, ...]

    @property
    def kind(self) -> str:
        """The line without its numbers."""
        return re.sub(r"\d+(\.\d+)?", "N", self.before.strip().rstrip(","))


def mutations(artefacts: Sequence[Artefact], random: Random) -> Iterator[Mutation]:
    """One mutation for each number, to a value near it, by *random*."""
    for place, artefact in enumerate(artefacts):
        pattern = _LINES[artefact.path[artefact.path.rindex(".") :]]
        lines = artefact.text.splitlines()
        section = ""
        for at, line in enumerate(lines):
            section = line.strip() if re.fullmatch(r" {4}\S+:", line) else section
            if pattern.fullmatch(line) is None or section in {"acl:", "bridge:"}:
                continue
            for match in _NUMBER.finditer(line):
                changed = f"{line[: match.start()]}{_other(match[0], random)}{line[match.end() :]}"
                text = "\n".join([*lines[:at], changed, *lines[at + 1 :]]) + "\n"
                files = (*artefacts[:place], Artefact(artefact.path, text), *artefacts[place + 1 :])
                yield Mutation(artefact.path, at + 1, line, changed, files)


def _other(number: str, random: Random) -> str:
    """Another number of the same form as *number*."""
    if "." in number:
        digits = len(number.partition(".")[2])
        return f"{float(number) + random.choice((1, 2, 5)) / 10**digits:.{digits}f}"
    value = int(number)
    return str(random.choice([other for other in range(max(0, value - 3), value + 4) if other != value]))
