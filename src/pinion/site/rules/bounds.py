"""Durations that have bounds."""

from __future__ import annotations

from pinion.site.errors import Path
from pinion.site.quantities import seconds
from pinion.site.rules.facts import Facts


def bounded(facts: Facts, path: Path, written: str, low: str, high: str) -> bool:
    """Whether the duration *written* at *path* is from *low* to *high*; reported where it is not."""
    sound = seconds(low) <= seconds(written) <= seconds(high)
    if not sound:
        nearest = low if seconds(written) < seconds(low) else high
        facts.report.on("SITE-020", path, key=path[-1], value=written, low=low, high=high, nearest=nearest)
    return sound
