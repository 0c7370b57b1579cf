"""What must hold between the parts of a site, by topic. Every rule reports what it finds and none stops another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pinion.site import catalog
from pinion.site.errors import Report
from pinion.site.rules import (
    access,
    addresses,
    cluster,
    fabric,
    hardware,
    hosts,
    leaving,
    listening,
    lists,
    networks,
    nodes,
    package_sources,
    ports,
    rollout,
    serving,
    signatures,
)
from pinion.site.rules.facts import Facts
from pinion.site.shape import Shaped

#: `networks` comes first: it finds the sound statements that the others compare with.
TOPICS: tuple[Callable[[Facts], None], ...] = (
    networks.check,
    hardware.check,
    addresses.check,
    ports.check,
    fabric.check,
    serving.check,
    signatures.check,
    access.check,
    hosts.check,
    listening.check,
    lists.check,
    package_sources.check,
    nodes.check,
    rollout.check,
    leaving.check,
)


def apply(shaped: Shaped, report: Report, charts: Path | None) -> None:
    """Look at the whole site and report every rule that it breaks. *charts* is the folder that services take their charts from."""
    facts = Facts(shaped, catalog.load(), report)
    for check in TOPICS:
        check(facts)
    cluster.check(facts, charts)
