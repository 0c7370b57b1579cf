"""Lists in which each item is named once: a second time says nothing, and was probably meant to be another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pinion.site.errors import Path
from pinion.site.rules.facts import Facts


def check(facts: Facts) -> None:
    """All rules about items that stand twice in a list."""
    for path, items in _lists(facts):
        first: dict[object, int] = {}
        for index, item in enumerate(items):
            if first.setdefault(item, index) != index:
                facts.report.on("SITE-017", (*path, index), name=item, position=first[item] + 1)


def _lists(facts: Facts) -> Iterator[tuple[Path, Sequence[object]]]:
    """Every list of names, prefixes or ports, but for those whose topic has a code of its own for it."""
    stated = facts.site.concerns
    yield ("access", "principals"), facts.site.access.principals
    if stated.identity is not None:
        yield ("concerns", "identity", "reload"), stated.identity.reload
    if stated.firewall is not None:
        where: Path = ("concerns", "firewall")
        yield (*where, "operators"), stated.firewall.operators
        for name, flow in stated.firewall.allow.items():
            for key, items in (("sources", flow.sources), ("hosts", flow.hosts), ("ports", flow.ports)):
                yield (*where, "allow", name, key), items
    if stated.base is not None:
        for name, source in stated.base.package_sources.items():
            where = ("concerns", "base", "package_sources", name)
            for key, items in (
                ("suites", source.suites),
                ("components", source.components or ()),
                ("hosts", source.hosts),
            ):
                yield (*where, key), items
