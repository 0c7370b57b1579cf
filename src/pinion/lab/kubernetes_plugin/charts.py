"""Charts on this machine: what one holds, as a digest, and what it renders, as objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

#: What editors and systems leave in a folder and helm does not pack.
_NOISE = (".swp", ".orig", "~", ".DS_Store")


def checksum(chart: Path) -> str:
    """SHA-256 of everything in a chart (a folder or an archive): paths, modes of execution, contents. `OSError` when it cannot be read."""
    digest = hashlib.sha256()
    for path in [chart] if chart.is_file() else sorted(chart.rglob("*")):
        if path.is_dir() or path.name.endswith(_NOISE):
            continue
        name = path.name if path == chart else str(path.relative_to(chart))
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(json.dumps([name, content]).encode())
    return digest.hexdigest()


def is_chart(chart: Path) -> bool:
    """Whether *chart* is a folder with a Chart.yaml, or a packed chart."""
    return (chart / "Chart.yaml").is_file() or (chart.is_file() and chart.name.endswith(".tgz"))


def objects(manifest: str, namespace: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a rendered *manifest*. One that names no namespace is in *namespace* when its kind has any (the caller knows)."""
    for document in yaml.safe_load_all(manifest):
        if isinstance(document, dict) and document.get("kind"):
            metadata = {"namespace": namespace, **document.get("metadata", {})}
            yield {**document, "metadata": metadata}
