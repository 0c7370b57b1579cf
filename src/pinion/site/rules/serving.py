"""What the site serves: models, routing and objectives that the site's own hardware can meet."""

from __future__ import annotations

from pinion.site.errors import Path
from pinion.site.quantities import fraction, seconds
from pinion.site.rules.facts import Facts


def check(facts: Facts) -> None:
    """All rules about models, routing and objectives."""
    for name, model in facts.site.models.items():
        path: Path = ("models", name)
        if model.edge is None and model.pool is None and not any(facts.has((*path, key)) for key in ("edge", "pool")):
            facts.report.on_key("MODEL-001", path, name=name)
        if model.edge is not None and not facts.stated("pis"):
            facts.report.on_key("MODEL-002", (*path, "edge"), name=name)
        if model.pool is not None and not facts.stated("gpu_servers"):
            facts.report.on_key("MODEL-003", (*path, "pool"), name=name)
    _objectives(facts)


def _objectives(facts: Facts) -> None:
    stated = facts.site.objectives
    if stated is None:
        return
    p50, p95 = (stated.edge.p50, stated.edge.p95) if stated.edge is not None else (None, None)
    if p50 is not None and p95 is not None and seconds(p50) > seconds(p95):
        facts.report.on("MODEL-004", ("objectives", "edge", "p50"), p50=p50, p95=p95)
    if stated.site is not None and stated.site.availability is not None and fraction(stated.site.availability) == 1.0:
        facts.report.on("MODEL-005", ("objectives", "site", "availability"))
