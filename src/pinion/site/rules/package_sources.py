"""Where hosts take names and packages from: addresses that are some, keys that are public ones, and nothing stated twice."""

from __future__ import annotations

import base64
import binascii
import re

from pinion.site.concerns import PackageSource
from pinion.site.errors import Path
from pinion.site.internet import ip_address
from pinion.site.rules.facts import Facts
from pinion.site.rules.hosts import host_names
from pinion.site.rules.rollout import KINDS

#: resolv.conf(5): MAXNS.
MOST_NAME_SERVERS = 3
#: RFC 9580: the packet that a transferable public key begins with (10.1), and how a packet says what it is (4.2).
_PUBLIC_KEY, _PACKET, _NEW_FORMAT = 6, 0x80, 0x40
_ARMOUR = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[A-Za-z]+: .*\n)*\n(?P<body>(?:[A-Za-z0-9+/]+=*\n)+)"
    r"(?:=(?P<sum>[A-Za-z0-9+/]{4})\n)?-----END PGP PUBLIC KEY BLOCK-----"
)

_Had = dict[tuple[str, str, str], list[tuple[str, frozenset[str]]]]


def check(facts: Facts) -> None:
    """All rules about name servers and package sources."""
    base = facts.site.concerns.base
    if base is None:
        return
    _name_servers(facts, base.name_servers)
    had: _Had = {}
    for name, source in base.package_sources.items():
        path: Path = ("concerns", "base", "package_sources", name)
        _key(facts, path, source)
        _folders(facts, path, source)
        known = [*KINDS, *host_names(facts)]
        for index, host in enumerate(source.hosts):
            if host not in known and not facts.may_be_node(host):
                hint = facts.report.hint(host, known)
                facts.report.on("BASE-012", (*path, "hosts", index), name=host, hint=hint)
        _twice(facts, path, source, had)


def _name_servers(facts: Facts, stated: tuple[str, ...]) -> None:
    first: dict[str, int] = {}
    for index, written in enumerate(stated):
        path: Path = ("concerns", "base", "name_servers", index)
        try:
            server = str(ip_address(written))
        except ValueError:
            facts.report.on("BASE-006", path, name=written)
            continue
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
    elif (why := mistake(source.key)) is not None:
        facts.report.on("BASE-009", (*path, "key"), why=why)


def mistake(written: str) -> str | None:
    """What is wrong with an OpenPGP public key in its ASCII form; None when it is a good one."""
    match = _ARMOUR.fullmatch(written.strip())
    if match is None:
        return "it is not the block from '-----BEGIN PGP PUBLIC KEY BLOCK-----' to its end"
    try:
        packets = base64.b64decode(match["body"].replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return "what is in the block is not base64"
    if match["sum"] is not None and base64.b64decode(match["sum"]) != _checksum(packets):
        return "its checksum says that the block was changed or cut off; export it again"
    head = packets[0]
    kind = head & 0x3F if head & _NEW_FORMAT else head >> 2 & 0xF
    return None if head & _PACKET and kind == _PUBLIC_KEY else "what is in the block is no public key"


def _checksum(packets: bytes) -> bytes:
    """The CRC-24 at the end of an ASCII form (RFC 9580, 6.1)."""
    found = 0xB704CE
    for byte in packets:
        found ^= byte << 16
        for _ in range(8):
            found = found << 1 ^ (0x1864CFB if found & 0x800000 else 0)
    return (found & 0xFFFFFF).to_bytes(3, "big")


def _folders(facts: Facts, path: Path, source: PackageSource) -> None:
    """A folder has no components, so it cannot share them with a suite."""
    folders = [suite for suite in source.suites if suite.endswith("/")]
    if folders and len(folders) < len(source.suites):
        facts.report.on("BASE-013", (*path, "suites"), name=folders[0], why="others here are suites")
    elif folders and source.components is not None:
        facts.report.on("BASE-013", (*path, "components"), name=folders[0], why="a folder has no components")


def _twice(facts: Facts, path: Path, source: PackageSource, had: _Had) -> None:
    """apt warns at each call of what two files name."""
    hosts = frozenset(source.hosts)
    for suite in source.suites:
        for component in source.components or ("main",):
            others = had.setdefault((source.uri.rstrip("/"), suite, component), [])
            for other, theirs in others:
                if not hosts or not theirs or hosts & theirs:
                    facts.report.on("BASE-014", (*path, "suites"), name=suite, uri=source.uri, other=other)
                    return
            others.append((str(path[-1]), hosts))
