"""Why packages did not come: what apt says of an archive that it could not use, as a cause and what mends it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

#: resolv.conf(5).
NAMES_FILE = Path("/etc/resolv.conf")
_NAMES = "state name servers that know it, concerns.base.name_servers in the site file"
_CLOCK = "`chronyc makestep` or `date --utc --set` sets it; where it comes back, state time servers in reach, concerns.base.time_servers"
_MIRROR = "mend it, or state another, concerns.base.package_sources in the site file"
#: What apt 2.6 and 3.0 and their methods say (gpgv, sqv; GnuTLS, OpenSSL); groups are what the cause names.
_SAID = (
    (
        re.compile(r"(?:Could not resolve|[Ff]ailure resolving|happened resolving) '([^':]*[A-Za-z][^':]*)"),
        "DNS: nobody knows the name {0}; this host asks {servers}",
        _NAMES,
    ),
    (
        re.compile(r"(not valid yet|Not live until|not yet valid|not yet activated|is in the future)"),
        "clock: what the archive has signed is of a later time than this host's clock, {now}",
        _CLOCK,
    ),
    (
        re.compile(r"is (expired) \(invalid since|[Cc]ertificate (?:has )?(expired)|uses (expired) certificate"),
        "clock: what the archive has signed has run out at {now}, which is what this host's clock says",
        f"if that is not the time: {_CLOCK}; if it is, the archive has not been brought up to date",
    ),
    (
        re.compile(r"(?:Could not connect to|Cannot initiate the connection to|Unable to connect to|Connection failed to) ([^ ]+)"),
        "mirror: {0} does not answer",
        f"{_MIRROR}; a firewall or a missing route looks the same",
    ),
    (
        re.compile(r"(Connection timed out|Connection failed|Undetermined Error|[^0-9](?:5[0-9]{2}) +[A-Z][a-z]+[^\n]*)"),
        "mirror: it fails ({0})",
        _MIRROR,
    ),
    (
        re.compile(r"(?:NO_PUBKEY|Missing key) ([0-9A-F]+)|(?:Reading|keyring) \"([^\"]+)\": No such file"),
        "key: the archive is not signed by what its source names ({0})",
        "state its key, concerns.base.package_sources.NAME.key",
    ),
)  # fmt: skip
#: What it says as well when it has said one of these, and what an archive that answers is refused for.
_THEN = (
    (
        re.compile(r"(SSL connection failed[^\n\[]*|Certificate verification failed[^\n\[]*)"),
        "mirror: its TLS does not hold ({0})",
        "have the host trust its authority, or state another, concerns.base.package_sources in the site file",
    ),
    (
        re.compile(r"The repository '([^']+)' (?:does not have a Release file|is not signed|no longer has a Release file)"),
        "archive: {0} is not there, or not signed",
        "state a suite that it has, concerns.base.package_sources.NAME.suites",
    ),
)  # fmt: skip
#: What it says when it has reached them all.
_NOWHERE = (
    (
        re.compile(r"Unable to locate package (\S+)|Package '([^']+)' has no installation candidate"),
        "archive: no package source of this host has {0}",
        "state one that has, concerns.base.package_sources in the site file",
    ),
)


def causes(said: str) -> str:
    """What kept apt, which *said* this, from its archives, and what mends it; empty where nothing of that kind is the matter."""
    found = next((found for known in (_SAID, _THEN, _NOWHERE) if (found := list(_found(known, said)))), [])
    return "; ".join(dict.fromkeys(f"{cause}: {mend}" for cause, mend in found))


def _found(known: Iterable[tuple[re.Pattern[str], str, str]], said: str) -> Iterator[tuple[str, str]]:
    for pattern, cause, mend in known:
        for match in pattern.finditer(said):
            named = next((group for group in match.groups() if group), "").strip()
            yield cause.format(named, servers=_servers(), now=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), mend


def _servers() -> str:
    """Whom this host asks for names."""
    try:
        text = NAMES_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return ", ".join(re.findall(r"^nameserver\s+(\S+)", text, re.MULTILINE)) or "nobody"
