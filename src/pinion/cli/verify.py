"""`pinion verify`: prove each claim of the plan on the live site."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pinion.bringup.access import access_of
from pinion.bringup.stack_environment import StackError
from pinion.bringup.verification import verify as run_verification
from pinion.checks.model import Finding, Outcome, Topic
from pinion.checks.report import mark, render_html, told, write
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.cli.completing import sites
from pinion.cli.console import new_console
from pinion.plan import plan as compile_plan
from pinion.site.find import repository
from pinion.site.loader import not_applied
from pinion.site.not_applied import Remark


@click.command(
    epilog="""\b
Examples:
  pinion verify lab
  pinion verify lab --json | jq '.summary'
  pinion verify dc-rack-12 --topic fabric --report /tmp/report.html
"""
)
@click.argument("site", shell_complete=sites)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=click.Choice([topic.value for topic in Topic]),
    help="Only claims of this topic; may be given more than once.",
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write the HTML report here.")
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Look again for so long at claims that fail: what was just changed may need a moment.",
)
@click.option("--all", "show_all", is_flag=True, help="List proved claims too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(
    site: str, topics: tuple[str, ...], report: Path | None, settle: float, show_all: bool, as_json: bool
) -> None:
    """Prove each claim of SITE's plan on the live site.

    Exits with 0 when every claim is proved, 1 when one failed, 2 when one could not be tried. What the site file states and nothing obeys
    yet is no claim: it is listed, in the report too.
    """
    path, loaded = load_or_exit(site, as_json=as_json)
    compiled = compile_plan(loaded)
    try:
        access = access_of(repository(), compiled.site)
    except StackError as error:
        click.echo(str(error), err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    findings = run_verification(compiled, access, topics, settle=settle, tell=lambda line: click.echo(line, err=True))
    unobeyed = not_applied(path)
    if report is not None:
        page = render_html(compiled, findings, taken=datetime.now(UTC), source=str(path), not_applied=unobeyed)
        write(report, page)
    if as_json:
        click.echo(json.dumps(_as_json(findings, unobeyed), indent=2))
    else:
        _print(findings, unobeyed, show_all=show_all, report=report)
    raise SystemExit(exit_code(findings))


def exit_code(findings: Sequence[Finding]) -> int:
    """0 when all are proved, 1 when one failed, else 2 when one could not be tried (or none was asked for)."""
    outcomes = {finding.outcome for finding in findings}
    if Outcome.FAILED in outcomes:
        return PROBLEM
    return FINE if outcomes == {Outcome.PROVED} else COULD_NOT_RUN


def _as_json(findings: Sequence[Finding], unobeyed: Sequence[Remark]) -> dict[str, object]:
    summary = Counter(finding.outcome.value for finding in findings)
    evidence = Counter(str(finding.evidence) for finding in findings if finding.outcome is Outcome.PROVED)
    return {
        "summary": {outcome.value: summary[outcome.value] for outcome in Outcome},
        "evidence": dict(sorted(evidence.items())),
        "findings": [finding.model_dump(mode="json") for finding in findings],
        "not_applied": [remark.as_dict() for remark in unobeyed],
    }


def _print(findings: Sequence[Finding], unobeyed: Sequence[Remark], *, show_all: bool, report: Path | None) -> None:
    console = new_console()
    summary = Table(box=None, pad_edge=False)
    for title in ("topic", "proved", "failed", "not run", "evidence"):
        summary.add_column(title, justify="right" if title in {"proved", "failed", "not run"} else "left")
    for topic in dict.fromkeys(finding.check.topic for finding in findings):
        own = [finding for finding in findings if finding.check.topic is topic]
        counts = Counter(finding.outcome for finding in own)
        evidence = Counter(str(finding.evidence) for finding in own if finding.outcome is Outcome.PROVED)
        levels = ", ".join(f"{count} {level}" for level, count in sorted(evidence.items()))
        summary.add_row(topic.value, *(str(counts[outcome]) for outcome in Outcome), levels or "none")
    shown = [
        finding
        for finding in findings
        if finding.outcome is Outcome.FAILED or (show_all and finding.outcome is Outcome.PROVED)
    ]
    for finding in shown:
        _say(console, told(finding))
        if finding.outcome is Outcome.FAILED:
            _say(console, f"    {finding.check.origin}: {finding.check.remedy}")
    reasons = Counter(finding.found for finding in findings if finding.outcome is Outcome.NOT_RUN)
    for reason, count in reasons.items():
        _say(console, f"{mark(Outcome.NOT_RUN)} {count} claims could not be tried: {reason}")
    left = [f"{finding.check.subject}: {', '.join(finding.left)}" for finding in findings if finding.left]
    for line in left:
        _say(console, f"not ours, left alone on {line}")
    if shown or reasons or left:
        console.print()
    console.print(summary)
    for remark in unobeyed:
        _say(console, str(remark))
    if report is not None:
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
