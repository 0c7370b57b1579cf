"""Nodes that leave: they are nodes of the site, and nothing that stays stands on them."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.site.allocation import natural
from pinion.site.errors import Path
from pinion.site.model import Site
from pinion.site.rules.facts import Facts


def check(facts: Facts) -> None:
    """All rules about decommissioned nodes."""
    nodes = [node for node in facts.nodes() if node.kind != "switches"]
    known = [node.name for node in nodes]
    first: dict[str, int] = {}
    for index, name in enumerate(facts.site.decommissioned):
        path: Path = ("decommissioned", index)
        if first.setdefault(name, index) != index:
            facts.report.on("DECOM-002", path, name=name, position=first[name] + 1)
        elif name in facts.stated("switches"):
            facts.report.on("DECOM-003", path, name=name)
        elif name not in known and not _unusable(facts, name):
            can = [each for each in known if not any(_needed(facts.site, each))]
            hint = facts.report.hint(name, can, facts.site.decommissioned)
            facts.report.on("DECOM-001", path, name=name, hint=hint)
        else:
            for what, remedy in _needed(facts.site, name):
                facts.report.on("DECOM-004", path, name=name, what=what, remedy=remedy)


def _unusable(facts: Facts, name: str) -> bool:
    """Whether the file does state *name*, in an entry that has a mistake of its own."""
    named = {*facts.stated("management_hosts"), *facts.stated("gpu_servers")}
    return name in named or facts.may_be_node(name)


def _needed(site: Site, name: str) -> Iterator[tuple[str, str]]:
    """What stands on the node *name*, and what to do about it."""
    if site.kubernetes is not None and site.kubernetes.control_plane == name:
        yield "serves the cluster's API", "name another control_plane under 'kubernetes' first"
    if site.concerns.site_ca is not None and name == min(site.management_hosts, key=natural, default=None):
        yield "runs the site's authority", "have another one first: concerns.identity.authority"
    for service, stated in site.services.items():
        if stated.server == name:
            yield f"runs the service '{service}'", "name another server for it first"
        elif stated.server is None and name in site.gpu_servers and set(site.gpu_servers) <= set(site.decommissioned):
            yield f"leaves no GPU server for the service '{service}'", "take the service away first"
