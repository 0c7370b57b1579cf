"""Pulumi's helpers (language hosts, plugins) that outlived their engine: it was killed, and they wait for its word for ever.

They live in the operator's network position, so a lab that is down would keep a namespace through them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.processes import Recorded, boot_id, end, start_time

#: How Pulumi calls the programs that its engine starts; a Python one stands behind its interpreter.
_HELPER = re.compile(r"(?:^|/)pulumi-(?:language|resource|analyzer)-[\w-]+$")
_ENGINE = "pulumi"


@dataclass(frozen=True)
class _Seen:
    parent: int
    words: tuple[str, ...]
    marked: bool

    @property
    def helper(self) -> bool:
        return any(_HELPER.search(word) for word in self.words[:2])

    @property
    def engine(self) -> bool:
        return any(Path(word).name == _ENGINE for word in self.words[:2])


def end_left(instance: str, folder: Path = Path("/proc")) -> int:
    """End the helpers of *instance* that no engine is above any more; how many there were."""
    seen = {int(entry.name): found for entry in folder.glob("[0-9]*") if (found := _look(entry, instance)) is not None}
    left = [pid for pid, process in seen.items() if process.helper and process.marked and not _has_engine(pid, seen)]
    ended = 0
    for pid in left:
        if (started := start_time(pid)) is not None:
            end(Recorded(pid, started, boot_id()))
            ended += 1
    return ended


def _has_engine(pid: int, seen: dict[int, _Seen]) -> bool:
    """Whether an engine is among the ancestors of *pid*."""
    process = seen.get(pid)
    while process is not None and process.parent in seen:
        process = seen[process.parent]
        if process.engine:
            return True
    return False


def _look(entry: Path, instance: str) -> _Seen | None:
    """What *entry* of /proc is; None for a process that has ended."""
    try:
        words = tuple((entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1])
        parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        marked = f"PINION_INSTANCE={instance}".encode() in (entry / "environ").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return None
    return _Seen(parent, words, marked)
