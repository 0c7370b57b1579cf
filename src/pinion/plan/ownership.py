"""No two concerns of a host own the same thing: each sysctl, file, unit … has one concern that states it. Pure.

Two owners would undo each other: the one that is taken away restores what was there before, and the other still wants its own. Only a
package may be needed by several, for a host keeps it until nobody names it any more. Whoever breaks this has made a mistake in a concern,
never in a site file, so it is raised and not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pinion.plan.model import Concern


class OwnershipError(AssertionError):
    """Two concerns of one host state the same thing. *clashes* are (kind, name, concerns) of each."""

    def __init__(self, host: str, clashes: tuple[tuple[str, str, tuple[str, ...]], ...]) -> None:
        self.clashes = clashes
        said = "; ".join(f"{kind} {name} by {' and '.join(owners)}" for kind, name, owners in clashes)
        super().__init__(f"{host}: owned by more than one concern: {said}")


def things(concern: Concern) -> Iterator[tuple[str, str]]:
    """Kind and name of all that *concern* owns. A package that must not be installed is owned like one that must."""
    yield from (("package", name) for name in (*concern.packages, *concern.packages_absent))
    yield from (("user", user.name) for user in concern.users)
    yield from (("path", directory.path.rstrip("/")) for directory in concern.directories)
    yield from (("path", file.path) for file in concern.files)
    yield from (("kernel argument", _argument(entry.argument)) for entry in concern.kernel_arguments)
    yield from (("module", module.name) for module in concern.modules)
    yield from (("sysctl", sysctl.key.replace("/", ".")) for sysctl in concern.sysctls)
    yield from (("unit", _unit(unit.name)) for unit in concern.units)


def clashes(concerns: Iterable[Concern]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """What more than one concern owns, or one twice: kind, name and owners, in the order of the concerns."""
    owners: dict[tuple[str, str], list[str]] = {}
    refused = set()
    for concern in concerns:
        refused |= set(concern.packages_absent)
        for thing in things(concern):
            owners.setdefault(thing, []).append(concern.name)
    return tuple(
        (*thing, tuple(names))
        for thing, names in owners.items()
        if len(names) > 1 and (thing[0] != "package" or thing[1] in refused)
    )


def check(host: str, concerns: Iterable[Concern]) -> None:
    """Raises `OwnershipError` when something of *host* has two owners."""
    found = clashes(concerns)
    if found:
        raise OwnershipError(host, found)


def _argument(written: str) -> str:
    """``isolcpus=4-7`` by its key; an argument without a value is its own key."""
    return written.partition("=")[0]


def _unit(name: str) -> str:
    """systemd.unit(5): a name without a suffix is a service."""
    return name if "." in name else f"{name}.service"
