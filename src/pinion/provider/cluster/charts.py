"""Charts on this machine: where one is, and what it holds, as a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from pinion.site.find import repository

#: What editors and systems leave in a folder and helm does not pack.
_NOISE = (".swp", ".orig", "~", ".DS_Store")


def place(chart: str) -> Path:
    """Where *chart* is: a path, which begins at the repository unless it is absolute. So a state names no checkout."""
    return repository() / Path(chart).expanduser()


def checksum(chart: Path) -> str:
    """SHA-256 of everything in a chart (a folder or an archive): paths and contents. `OSError` when it cannot be read."""
    digest = hashlib.sha256()
    for name, content in contents(chart):
        digest.update(json.dumps([name, hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()


def contents(chart: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a chart (a folder or an archive). `OSError` when it cannot be read."""
    for path in [chart] if chart.is_file() else sorted(chart.rglob("*")):
        if path.is_dir() or path.name.endswith(_NOISE):
            continue
        yield path.name if path == chart else str(path.relative_to(chart)), path.read_bytes()


def is_chart(chart: Path) -> bool:
    """Whether *chart* is a folder with a Chart.yaml, or a packed chart."""
    return (chart / "Chart.yaml").is_file() or (chart.is_file() and chart.name.endswith(".tgz"))
