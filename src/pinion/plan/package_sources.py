"""Where a host takes packages from, as files of apt's: one of each archive, and its key, which counts for that archive only. Pure.

The concern `base` places what the site states; any other concern may bring an archive of its own by `source_files`.
"""

from __future__ import annotations

import re

from pinion.plan.context import HostContext
from pinion.plan.model import HostFile
from pinion.plan.texts import kept_by
from pinion.site.concerns import DEBIAN_KEYRING, PackageSource

FOLDER = "/etc/apt/sources.list.d"
#: Where apt looks for nothing by itself: a key here counts where a source names it (sources.list(5), Signed-By).
KEYS_FOLDER = "/etc/apt/keyrings"
#: What Debian's installer writes; a source called `DEBIAN` takes its place.
OLD_FILE = "/etc/apt/sources.list"
DEBIAN = "debian"
_SERVER = re.compile(r"(\[[^]]*\]|[^:/]*)(?::([0-9]+))?")


def stated_sources(host: HostContext) -> dict[str, PackageSource]:
    """The sources that the site states for *host*, by name."""
    settings = host.settings.base
    names = {host.name, *host.groups}
    found = settings.package_sources if settings is not None else {}
    return {name: source for name, source in found.items() if not source.hosts or not names.isdisjoint(source.hosts)}


def source_files(concern: str, sources: dict[str, PackageSource]) -> tuple[HostFile, ...]:
    """The files by which *concern* has a host take packages from *sources*: keys first."""
    keys = (
        HostFile(path=_key_file(name), content=f"{source.key.strip()}\n", for_packages=True)
        for name, source in sources.items()
        if source.key is not None
    )
    lists = (
        HostFile(path=f"{FOLDER}/{name}.sources", content=_stanza(concern, name, source), for_packages=True)
        for name, source in sources.items()
    )
    old = f"{kept_by(concern)}\n# Package sources are in {FOLDER}.\n"
    installers = (HostFile(path=OLD_FILE, content=old, for_packages=True),) if DEBIAN in sources else ()
    return (*keys, *lists, *installers)


def archive(source: PackageSource) -> tuple[str, int]:
    """The host, a name or an address, and the port that *source* is had from."""
    scheme, _, rest = source.uri.partition("://")
    found = _SERVER.match(rest)
    assert found is not None, "the site's own type lets no other address pass"
    return found[1].strip("[]").lower(), int(found[2] or (443 if scheme == "https" else 80))


def _key_file(name: str) -> str:
    return f"{KEYS_FOLDER}/pinion-{name}.asc"


def _stanza(concern: str, name: str, source: PackageSource) -> str:
    """sources.list(5), deb822."""
    folders = all(suite.endswith("/") for suite in source.suites)
    components = source.components or (() if folders else ("main",))
    lines = [
        kept_by(concern),
        "Types: deb",
        f"URIs: {source.uri}",
        f"Suites: {' '.join(source.suites)}",
        *([f"Components: {' '.join(components)}"] if components else []),
        f"Signed-By: {_key_file(name) if source.key is not None else source.keyring or DEBIAN_KEYRING}",
    ]
    return "\n".join(lines) + "\n"
