"""How a run over many hosts goes: limits of groups that there are."""

from __future__ import annotations

from pinion.site.rules.facts import Facts

#: Groups by the kind of their hosts; the plan calls them so too.
KINDS = ("pis", "gpu_servers", "management_hosts")


def check(facts: Facts) -> None:
    """All rules about the rollout."""
    known = [*KINDS, *facts.site.pis]
    for name in facts.site.rollout.limits:
        if name not in known:
            hint = facts.report.hint(name, known, facts.site.rollout.limits)
            facts.report.on_key("ROLL-001", ("rollout", "limits", name), name=name, hint=hint)
