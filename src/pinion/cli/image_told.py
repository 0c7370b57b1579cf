"""What `pinion image` says of node images and their trials, in words and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from pinion.checks.model import Finding, Outcome
from pinion.checks.report import told as finding_told
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM
from pinion.image.node import NodeImage
from pinion.image.trial import Trial


def node_json(node: NodeImage) -> dict[str, object]:
    """A node's image, and how it enrols itself."""
    ends = node.enrolment.ends
    return {
        "node": node.node,
        "image": str(node.path),
        "sha256": node.sha256,
        "size": node.size,
        "identity": node.identity,
        "enrolment": {
            "at_first_boot": node.enrolment.token is not None,
            "token_until": datetime.fromtimestamp(ends, UTC).isoformat() if ends is not None else None,
            "why_not": node.enrolment.why_not,
        },
    }


def enrolment_told(node: NodeImage) -> str:
    """Whether the node gets its certificate by itself, and what to do when it does not."""
    found = node.enrolment
    if found.ends is not None:
        until = f"{datetime.fromtimestamp(found.ends, UTC):%Y-%m-%d %H:%M UTC}"
        return f"       enrols itself at its first boot, until {until}; its token works once, so for one card"
    if found.why_not is not None:
        later = "Or leave it to `pinion converge`, which enrols the hosts that it reaches"
        return f"note: {node.node} will not enrol itself: {found.why_not}. {later}"
    if found.root is None:
        return f"note: {node.node} trusts public authorities only: the site states no concern `identity`, and no --root-ca was given"
    return (
        "       trusts the root certificate that was given; the site states no certificate for it (concern `identity`)"
    )


def trial_json(trial: Trial) -> dict[str, object]:
    """A trial with each finding."""
    return {
        "node": trial.image.node,
        "image": node_json(trial.image),
        "seconds_to_login": round(trial.seconds, 1),
        "findings": [finding.model_dump(mode="json") for finding in trial.findings],
    }


def trial_code(findings: tuple[Finding, ...]) -> int:
    """0 when all are proved, 1 when one failed, 2 when one could not be tried."""
    outcomes = {finding.outcome for finding in findings}
    if Outcome.FAILED in outcomes:
        return PROBLEM
    return FINE if outcomes == {Outcome.PROVED} else COULD_NOT_RUN


def print_trial(trial: Trial, *, show_all: bool) -> None:
    """A trial in words: what is not proved, with *show_all* also what is, and the sum."""
    for finding in trial.findings:
        if show_all or finding.outcome is not Outcome.PROVED:
            click.echo(finding_told(finding))
    proved = [finding for finding in trial.findings if finding.outcome is Outcome.PROVED]
    levels = {
        level: sum(finding.evidence == level for finding in proved)
        for level in dict.fromkeys(str(finding.evidence) for finding in proved)
    }
    shown = ", ".join(f"{count} {level}" for level, count in levels.items())
    click.echo(
        f"{trial.image.node}: login after {trial.seconds:.0f} s; {len(proved)} of {len(trial.findings)} claims proved ({shown})"
    )
    if len(proved) < len(trial.findings):
        click.echo(f"console: {trial.console}")
