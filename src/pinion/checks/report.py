"""The acceptance report: one HTML file that needs nothing else, and the same facts as JSON and as a table."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from pinion.checks.elevation import colours, elevations, worst
from pinion.checks.model import Finding, Outcome, Topic
from pinion.plan.model import Plan
from pinion.site.not_applied import Remark

_MARKS = {Outcome.PROVED: "✓", Outcome.FAILED: "✗", Outcome.NOT_RUN: "?"}


def mark(outcome: Outcome | None) -> str:
    """A sign for an outcome, so that colour is never the only difference."""
    return _MARKS[outcome] if outcome is not None else "·"


def told(finding: Finding) -> str:
    """A finding in one line: its sign, the claim, what was expected and what was found."""
    check = finding.check
    return f"{mark(finding.outcome)} {check.claim}: expected {check.expected}, found {finding.found}"


def _css(outcome: Outcome | None) -> str:
    return outcome.value.replace(" ", "-") if outcome is not None else ""


def render_html(
    plan: Plan, findings: Sequence[Finding], *, taken: datetime, source: str, not_applied: Sequence[Remark] = ()
) -> str:
    """The report as one HTML page. *taken* is when the probes ran; *source* names the site file, of which nothing obeys *not_applied*."""
    environment = Environment(loader=PackageLoader("pinion.checks", "."), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"mark": mark, "css": _css}
    topics = []
    for topic in Topic:
        own = [finding for finding in findings if finding.check.topic is topic]
        if not own:
            continue
        evidence = Counter(str(finding.evidence) for finding in own if finding.outcome is Outcome.PROVED)
        topics.append(
            {
                "name": topic.value,
                "outcome": worst(own),
                "proved": sum(finding.outcome is Outcome.PROVED for finding in own),
                "evidence": ", ".join(f"{count} {level}" for level, count in sorted(evidence.items())) or "no evidence",
                "findings": sorted(own, key=lambda finding: finding.outcome is Outcome.PROVED),
            }
        )
    return environment.get_template("report.html.j2").render(
        plan=plan,
        taken=taken.strftime("%Y-%m-%d %H:%M %Z").strip(),
        source=source,
        version=metadata.version("pinion"),
        tiles=_tiles(findings),
        colours=colours(plan),
        elevations=elevations(plan, findings),
        topics=topics,
        not_applied=not_applied,
    )


def _tiles(findings: Sequence[Finding]) -> list[dict[str, object]]:
    outcomes = Counter(finding.outcome for finding in findings)
    evidence = Counter(
        finding.evidence for finding in findings if finding.outcome is Outcome.PROVED and finding.evidence
    )
    tiles: list[dict[str, object]] = [
        {
            "count": outcomes[outcome],
            "label": f"claims {outcome.value}",
            "css": _css(outcome) if outcomes[outcome] else "",
        }
        for outcome in Outcome
    ]
    tiles += [{"count": count, "label": f"{level.value}", "css": ""} for level, count in sorted(evidence.items())]
    return tiles


def write(path: Path, text: str) -> None:
    """Replace *path* by *text* in one rename, so that a reader sees the old or the new report and never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)
