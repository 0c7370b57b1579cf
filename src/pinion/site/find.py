"""Which site file a name means: one rule for every program that takes a site by name."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

#: Longest name that a message repeats in full.
_SHOWN = 80


def repository() -> Path:
    """The folder that holds `inventories/`: `$PINION_ROOT`, else the nearest ancestor of the working directory, else of this file."""
    stated = os.environ.get("PINION_ROOT")
    if stated:
        return Path(stated)
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            with suppress(PermissionError):  # what may not be read is not ours
                if (folder / "inventories").is_dir():
                    return folder
    return Path.cwd()


def site_file(written: str) -> Path:
    """The site file that *written* means: a path, its folder, or the name of a folder under `inventories/`.

    Raises `FileNotFoundError` with the names of the known sites when there is no such file, and `PermissionError` when it cannot be told.
    """
    candidates = [Path(written), Path(written) / "site.yml", repository() / "inventories" / written / "site.yml"]
    for candidate in candidates:
        if _is_file(candidate):
            return candidate
    known = sorted(path.parent.name for path in (repository() / "inventories").glob("*/site.yml"))
    name = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}… ({len(written)} characters)"
    raise FileNotFoundError(
        f"no site file at {name} and no site of that name; known sites: {', '.join(known) or 'none'}"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError as refused:
        raise PermissionError(f"{path} cannot be looked at: {refused.strerror}") from None
    except OSError:  # a name that no file system takes
        return False


def stated_name(path: Path) -> str | None:
    """The site's name as the file *path* states it, without loading the file; None where that takes a reader of YAML.

    For programs that need the name alone, before anything else: whether the file is any good, they do not learn.
    """
    found = re.findall(r"^site:[ \t]*([a-z0-9-]+)[ \t]*(?:#.*)?$", path.read_text(errors="replace"), re.MULTILINE)
    return str(found[0]) if len(found) == 1 else None
