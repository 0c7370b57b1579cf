"""Durations that have bounds."""

from __future__ import annotations

from pinion.site.errors import Path
from pinion.site.quantities import seconds
from pinion.site.rules.facts import Facts


def bounded(facts: Facts, path: Path, written: str, low: str, high: str) -> None:
    """Report the duration *written* at *path* where it is not from *low* to *high*."""
    if not seconds(low) <= seconds(written) <= seconds(high):
        nearest = low if seconds(written) < seconds(low) else high
        facts.report.on("SITE-020", path, key=path[-1], value=written, low=low, high=high, nearest=nearest)
