"""What must hold between the parts of a site."""

from __future__ import annotations

from pinion.site.errors import Report
from pinion.site.shape import Shaped


def apply(shaped: Shaped, report: Report) -> None:
    """Look at the whole site and report every rule that it breaks."""
