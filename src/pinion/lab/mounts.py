"""Mounts of the lab: overlays made and everything below a folder unmounted, asked of the kernel and never of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.processes import run


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo (proc(5)): where, what kind, with which options of the file system.

    *number* is its own, *carrier* that of the mount that it lies in; *peers* names those that get what is mounted in it, "" for none.
    """

    point: Path
    kind: str
    options: str
    root: str
    number: int
    carrier: int
    peers: str


def mounts() -> list[Mount]:
    """Every mount in this mount namespace, in the order in which they were made."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        options = rest[2] if len(rest) > 2 else ""
        peers = next((field for field in fields[6:] if field.startswith("shared:")), "")
        number, carrier = int(fields[0]), int(fields[1])
        found.append(Mount(Path(_plain(fields[4])), rest[0], options, _plain(fields[3]), number, carrier, peers))
    return found


def _plain(text: str) -> str:
    """Undo mountinfo's octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def mounted(point: Path) -> Mount | None:
    """The topmost mount at *point*, or None."""
    return next((mount for mount in reversed(mounts()) if mount.point == point), None)


def mount_overlay(lower: Sequence[Path], upper: Path, work: Path, point: Path) -> None:
    """Mount an overlay at *point*: *lower* layers with the topmost first, changes into *upper*. Replaces what is mounted there."""
    unmount_tree(point)
    for folder in (upper, work, point):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    done = run(["mount", "-t", "overlay", "overlay", "-o", options, str(point)], check=False)
    if done.returncode:
        raise LabError(
            f"{point}: overlay cannot be mounted: {done.stderr.strip()}; the state folder must lie on a real file system, no overlay"
        )


def unmount_tree(point: Path) -> list[Path]:
    """Unmount everything at and below *point*, the deepest first; returns what was unmounted.

    A mount still in use is detached: it vanishes with its last user.
    """
    inside = [mount.point for mount in mounts() if mount.point == point or point in mount.point.parents]
    for target in reversed(inside):
        if run(["umount", str(target)], check=False).returncode:
            run(["umount", "--lazy", str(target)], check=False)
    left = [mount.point for mount in mounts() if mount.point == point or point in mount.point.parents]
    if left:
        raise LabError(f"{left[0]}: cannot be unmounted; see which process uses it with: fuser -vm {left[0]}")
    return inside
