"""Arguments that several commands take: the site, and how problems of a site file leave the process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from pinion.site.loader import SiteErrors, load
from pinion.site.model import Site

#: Exit codes of every command (the convention of the project, after DeepOps' validators).
FINE, PROBLEM, COULD_NOT_RUN = 0, 1, 2


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


def site_path(written: str) -> Path:
    """The site file that *written* means: a path, or the name of a folder under `inventories/`.

    Raises `click.BadParameter` (exit code 2) when there is no such file.
    """
    candidates = [Path(written), Path(written) / "site.yml", repository() / "inventories" / written / "site.yml"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = sorted(path.parent.name for path in (repository() / "inventories").glob("*/site.yml"))
    raise click.BadParameter(
        f"no site file at {written} and no site of that name; known sites: {', '.join(known) or 'none'}"
    )


def load_or_exit(written: str, *, as_json: bool) -> tuple[Path, Site]:
    """Load the site *written*; print every problem and exit with 1 when it has any."""
    path = site_path(written)
    try:
        return path, load(path)
    except SiteErrors as errors:
        if as_json:
            click.echo(json.dumps({"problems": [problem.as_dict() for problem in errors.problems]}, indent=2))
        else:
            click.echo(str(errors), err=True)
        raise SystemExit(PROBLEM) from None
