"""Run checks against the live site. Each prober takes all checks of its kind at once: one login a host, few reads of NetBox.

A prober never raises: what it cannot reach becomes `NOT_RUN` findings with the reason, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pinion.checks.model import Check, Finding, not_run
from pinion.plan.model import Plan

#: Takes a plan and all checks, answers those whose probe it knows.
Prober = Callable[[Plan, Sequence[Check]], Iterable[Finding]]


def run_all(plan: Plan, checks: Sequence[Check], probers: Sequence[Prober]) -> tuple[Finding, ...]:
    """Give every check to the probers side by side; findings come back in the order of *checks*.

    A check that no prober took is `NOT_RUN` and says so.
    """
    found: dict[str, Finding] = {}
    with ThreadPoolExecutor(max_workers=max(1, len(probers))) as pool:
        for findings in pool.map(lambda prober: list(prober(plan, checks)), probers):
            found |= {finding.check.id: finding for finding in findings}
    return tuple(
        found.get(check.id) or not_run(check, "the stack's configuration does not say how to reach this")
        for check in checks
    )
