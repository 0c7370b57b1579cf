"""Load a site file: text to tree to model, then the rules; every problem of the file in one run.

`load` gives the Site or raises `SiteErrors`; `check` gives both what there is and what is wrong. Neither raises anything else, whatever
the file holds, and neither changes anything.
"""

from __future__ import annotations

from pathlib import Path

from pinion.site.encoding import MAXIMUM_BYTES
from pinion.site.errors import Problem, Report, SiteErrors
from pinion.site.model import Site
from pinion.site.not_applied import Remark, remarks
from pinion.site.rules import apply
from pinion.site.shape import Shaped
from pinion.site.tree import parse

__all__ = ["Problem", "Remark", "SiteErrors", "check", "load", "not_applied", "read"]


def load(path: Path) -> Site:
    """The site that the file *path* describes; `SiteErrors` with every problem when it has any."""
    site, problems = check(path)
    if site is None or problems:
        raise SiteErrors(problems)
    return site


def check(path: Path) -> tuple[Site | None, tuple[Problem, ...]]:
    """The site that the file *path* describes, or None, and every problem that it has (none when there is a site)."""
    try:
        data = _bytes(path)
    except (OSError, ValueError) as failed:
        report = Report(file=str(path))
        reason = failed.strerror if isinstance(failed, OSError) and failed.strerror else str(failed)
        report.at("FILE-001", 1, 1, reason=reason)
        return None, report.problems
    return read(data, str(path), charts=charts_folder(path))


def not_applied(path: Path) -> tuple[Remark, ...]:
    """What the site file *path* states and nothing obeys yet; nothing for a file that cannot be read (`check` says why)."""
    try:
        root = parse(_bytes(path), Report(file=str(path)))
    except (OSError, ValueError):
        return ()
    return remarks(root, str(path)) if root is not None else ()


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAXIMUM_BYTES + 1)


def charts_folder(path: Path) -> Path | None:
    """The folder that the site file's services take their charts from: the nearest `charts/` above the file, else above this package."""
    for start in (path.resolve(), Path(__file__).resolve()):
        for folder in start.parents:
            if (folder / "charts").is_dir():
                return folder / "charts"
    return None


def read(data: bytes, file: str, *, charts: Path | None = None) -> tuple[Site | None, tuple[Problem, ...]]:
    """As `check`, for the content *data* of a file that messages call *file*; services take their charts from the folder *charts*."""
    report = Report(file=file)
    root = parse(data, report)
    if root is None:
        return None, report.problems
    shaped = Shaped(root, report)
    if not report.full:
        apply(shaped, report, charts)
    problems = report.problems
    return (None if problems or shaped.mended else shaped.site), problems
