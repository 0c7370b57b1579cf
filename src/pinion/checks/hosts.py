"""Claims about hosts: what each concern of a HostPlan promises, one check a thing."""

from __future__ import annotations

from pinion.checks.model import Check
from pinion.plan.model import Plan


def host_checks(plan: Plan) -> tuple[Check, ...]:
    """One check for each package, user, file, sysctl and unit of every host."""
    return ()
