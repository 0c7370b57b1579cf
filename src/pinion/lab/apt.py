"""The Debian mirror of this machine, as its own apt is configured: for building layers, and for what lab machines install later.

Invariants: no mirror is written here; what a person configured (mirror, proxy, relaxed date checks) is what the lab uses; entries of
third parties are left out, since a lab machine could not verify or reach them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pinion.lab.errors import LabError
from pinion.lab.processes import run
from pinion.lab.recipes import RELEASE

#: Settings of this machine's apt that also hold for a layer build.
_KEPT_OPTIONS = re.compile(
    r"Acquire::(http|https)::(Proxy|Proxy::.*|Verify-Peer|CaInfo)|Acquire::(Check-Valid-Until|Check-Date|ForceIPv4|ForceIPv6)"
)
_DEBIAN_KEYRING = "debian-archive-keyring"
_KEYRING_FILE = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Mirrors:
    """URIs of the Debian archive and of its security archive, each with a trailing part as written (no final slash)."""

    archive: str
    security: str | None

    @property
    def uris(self) -> tuple[str, ...]:
        return (self.archive, *((self.security,) if self.security else ()))

    def sources(self) -> str:
        """The sources of lab machines, deb822, for the build: the mirror as this machine reaches it."""
        return self._sources(lambda uri: uri)

    def proxied_sources(self) -> str:
        """The sources inside a running machine: plain HTTP to the uplink's proxy, which speaks to the mirror as this machine does."""
        return self._sources(lambda uri: f"http://{urlsplit(uri).netloc.rpartition('@')[2]}{urlsplit(uri).path}")

    def _sources(self, written: Callable[[str], str]) -> str:
        stanzas = [(self.archive, f"{RELEASE} {RELEASE}-updates")]
        if self.security:
            stanzas.append((self.security, f"{RELEASE}-security"))
        return "\n".join(
            f"Types: deb\nURIs: {written(uri)}\nSuites: {suites}\nComponents: main\nSigned-By: {_KEYRING_FILE}\n"
            for uri, suites in stanzas
        )


@dataclass(frozen=True)
class Entry:
    """One source of packages: deb822 stanza or one-line entry, reduced to what tells whose it is."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str


def parse_deb822(text: str) -> list[Entry]:
    """Enabled binary stanzas of a ``.sources`` file (sources.list(5))."""
    entries = []
    for block in re.split(r"\n\s*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
        fields: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line[:1] in " \t" and key:
                fields[key] += " " + line.strip()
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() not in {
            "no",
            "false",
            "0",
        }:
            entries.append(
                Entry(
                    tuple(fields.get("uris", "").split()),
                    tuple(fields.get("suites", "").split()),
                    tuple(fields.get("components", "").split()),
                    fields.get("signed-by", ""),
                )
            )
    return entries


def parse_one_line(text: str) -> list[Entry]:
    """``deb`` entries of a ``.list`` file (sources.list(5))."""
    entries = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            options = dict(part.split("=", 1) for part in (match.group(1) or "").split() if "=" in part)
            entries.append(
                Entry((match.group(2),), (match.group(3),), tuple(match.group(4).split()), options.get("signed-by", ""))
            )
    return entries


def choose(entries: Iterable[Entry], codename: str) -> Mirrors:
    """The Debian mirrors among *entries* of a machine whose release is *codename*.

    Debian's own entries have component ``main``, a suite of the machine's release, and its archive key or none named. Raises `LabError`
    when there is none.
    """
    archive: str | None = None
    security: str | None = None
    for entry in entries:
        if "main" not in entry.components or (entry.signed_by and _DEBIAN_KEYRING not in entry.signed_by):
            continue
        for suite in entry.suites:
            release, _, pocket = suite.replace("/", "-").partition("-")
            if (
                release not in {codename, "stable", "oldstable", "testing", "sid", "unstable", RELEASE}
                or not entry.uris
            ):
                continue
            uri = entry.uris[0].rstrip("/")
            if pocket.startswith("security"):
                security = security or uri
            elif not pocket or pocket == "updates":
                archive = archive or uri
    if archive is None:
        raise LabError(
            "apt sources: no Debian mirror found in /etc/apt/sources.list or sources.list.d; "
            f"add one with component main for {codename} (sources.list(5))"
        )
    return Mirrors(archive, security)


def machine_mirrors(etc: Path = Path("/etc")) -> Mirrors:
    """The mirrors of this machine, from its apt sources under *etc*."""
    entries: list[Entry] = []
    for path in [etc / "apt/sources.list", *sorted((etc / "apt/sources.list.d").glob("*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".sources":
            entries += parse_deb822(text)
        elif path.suffix == ".list":
            entries += parse_one_line(text)
    release = re.search(r"^VERSION_CODENAME=\"?(\w+)", (etc / "os-release").read_text(), re.MULTILINE)
    return choose(entries, release.group(1) if release else "stable")


def machine_options() -> dict[str, str]:
    """Settings of this machine's apt that a layer build needs too: proxies, relaxed date checks."""
    return parse_options(run(["apt-config", "dump", "--format", "%F %v%n"]).stdout)


def parse_options(dump: str) -> dict[str, str]:
    """The settings worth keeping out of ``apt-config dump --format '%F %v%n'``."""
    kept = {}
    for line in dump.splitlines():
        key, _, value = line.partition(" ")
        if value and _KEPT_OPTIONS.fullmatch(key):
            kept[key] = value
    return kept


def as_configuration(options: dict[str, str]) -> str:
    """*options* as a file for ``apt.conf.d``."""
    return "".join(f'{key} "{value}";\n' for key, value in sorted(options.items()))
