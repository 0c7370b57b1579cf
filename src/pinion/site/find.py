"""Which site file a name means: one rule for every program that takes a site by name."""

from __future__ import annotations

import os
import re
from pathlib import Path


def repository() -> Path:
    """The folder that holds `inventories/`: `$PINION_ROOT`, else the nearest ancestor of the working directory, else of this file."""
    stated = os.environ.get("PINION_ROOT")
    if stated:
        return Path(stated)
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "inventories").is_dir():
                return folder
    return Path.cwd()


def site_file(written: str) -> Path:
    """The site file that *written* means: a path, its folder, or the name of a folder under `inventories/`.

    Raises `FileNotFoundError` with the names of the known sites when there is no such file.
    """
    candidates = [Path(written), Path(written) / "site.yml", repository() / "inventories" / written / "site.yml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = sorted(path.parent.name for path in (repository() / "inventories").glob("*/site.yml"))
    raise FileNotFoundError(
        f"no site file at {written} and no site of that name; known sites: {', '.join(known) or 'none'}"
    )


def stated_name(path: Path) -> str | None:
    """The site's name as the file *path* states it, without loading the file; None where that takes a reader of YAML.

    For programs that need the name alone, before anything else: whether the file is any good, they do not learn.
    """
    found = re.findall(r"^site:[ \t]*([a-z0-9-]+)[ \t]*(?:#.*)?$", path.read_text(errors="replace"), re.MULTILINE)
    return str(found[0]) if len(found) == 1 else None
