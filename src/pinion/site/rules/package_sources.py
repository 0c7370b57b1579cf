"""Where hosts take names and packages from: addresses that are some, keys that are public ones, and nothing stated twice."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from pinion.site import openpgp
from pinion.site.concerns import PackageSource
from pinion.site.errors import Path
from pinion.site.internet import server_address
from pinion.site.rules.facts import Facts
from pinion.site.rules.hosts import host_names, is_server_of_hosts
from pinion.site.rules.rollout import KINDS

#: resolv.conf(5): MAXNS.
MOST_NAME_SERVERS = 3
#: Name servers for examples (RFC 5737).
NAME_SERVERS = ("192.0.2.53", "198.51.100.53", "203.0.113.53")
#: Sources that take the place of what a platform brings; tests/unit/site/test_refusals.py holds them to the plan's.
REPLACING = ("debian", "raspi")
#: As difflib counts likeness: "raspbian" is near "raspi", "backports" is near neither.
_NEAR = 0.75
_Had = dict[tuple[str, str, str], list[tuple[str, frozenset[str]]]]


def check(facts: Facts) -> None:
    """All rules about name servers and package sources."""
    base = facts.site.concerns.base
    if base is None:
        return
    _name_servers(facts, base.name_servers)
    _misspelt(facts, base.package_sources)
    had: _Had = {}
    for name, source in base.package_sources.items():
        path: Path = ("concerns", "base", "package_sources", name)
        _key(facts, path, source)
        _folders(facts, path, source)
        known = [*KINDS, *host_names(facts)]
        for index, host in enumerate(source.hosts):
            if host not in known and not facts.may_be_node(host):
                hint = facts.report.hint(host, known, source.hosts)
                facts.report.on("BASE-012", (*path, "hosts", index), name=host, hint=hint)
        _twice(facts, path, source, had)


def _misspelt(facts: Facts, stated: Collection[str]) -> None:
    """A name that is nearly one of those that take the place of the platform's own would bring a second source beside that."""
    for name in stated:
        near = get_close_matches(name, REPLACING, n=1, cutoff=_NEAR)
        if near and near[0] not in stated and not name.startswith(f"{near[0]}-"):
            path: Path = ("concerns", "base", "package_sources", name)
            facts.report.on_key("BASE-015", path, name=name, meant=near[0])


def _name_servers(facts: Facts, stated: tuple[str, ...]) -> None:
    first: dict[str, int] = {}
    for index, written in enumerate(stated):
        path: Path = ("concerns", "base", "name_servers", index)
        if not is_server_of_hosts(facts, written):
            good = next((each for each in NAME_SERVERS if each not in stated), None)
            facts.report.on("BASE-006", path, name=written, example=good)
            continue
        server = str(server_address(written))
        if first.setdefault(server, index) != index:
            facts.report.on("BASE-007", path, name=written, position=first[server] + 1)
        elif index >= MOST_NAME_SERVERS:
            facts.report.on("BASE-008", path, position=index + 1, most=MOST_NAME_SERVERS)


def _key(facts: Facts, path: Path, source: PackageSource) -> None:
    if source.key is None:
        return
    if source.keyring is not None:
        facts.report.on("BASE-011", (*path, "keyring"))
    if "PRIVATE KEY" in source.key:
        facts.report.on("BASE-010", (*path, "key"))
    elif (why := openpgp.mistake(source.key)) is not None:
        facts.report.on("BASE-009", (*path, "key"), why=why)


def _folders(facts: Facts, path: Path, source: PackageSource) -> None:
    """A folder has no components, so it cannot share them with a suite."""
    if facts.guessed((*path, "suites")):
        return
    folders = [suite for suite in source.suites if suite.endswith("/")]
    if folders and len(folders) < len(source.suites):
        facts.report.on("BASE-013", (*path, "suites"), name=folders[0], why="others here are suites")
    elif folders and source.components is not None:
        facts.report.on("BASE-013", (*path, "components"), name=folders[0], why="a folder has no components")


def _twice(facts: Facts, path: Path, source: PackageSource, had: _Had) -> None:
    """apt warns at each call of what two files name."""
    if any(facts.guessed((*path, key)) for key in ("uri", "suites")):
        return
    hosts = frozenset(source.hosts)
    for suite in dict.fromkeys(source.suites):
        for component in dict.fromkeys(source.components or ("main",)):
            others = had.setdefault((source.uri.rstrip("/"), suite, component), [])
            for other, theirs in others:
                if not hosts or not theirs or hosts & theirs:
                    facts.report.on("BASE-014", (*path, "suites"), name=suite, uri=source.uri, other=other)
                    return
            others.append((str(path[-1]), hosts))
