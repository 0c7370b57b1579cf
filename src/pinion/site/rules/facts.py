"""What the rules look at: the site, the catalogue, and the networks with only those statements that make sense.

A rule that finds a mistake in a network reports it, and the other rules then see that network without the mistaken statement. So one
mistake is told once, and the rest of the file is still looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace

from pinion.site.allocation import AddressRange, identity_number, node_name
from pinion.site.catalog import Catalog
from pinion.site.errors import Path, Report
from pinion.site.fixes import Fix
from pinion.site.internet import Address, Prefix
from pinion.site.model import GpuServer, ManagementHost, Network, PiGroup, Site, Switch
from pinion.site.quantities import MAXIMUM_EXPANSION, numbers
from pinion.site.shape import Shaped
from pinion.site.tree import Mapping as TreeMapping

#: Sections that every site has.
REQUIRED = frozenset({"racks", "networks", "switches"})


@dataclass(slots=True)
class Subnet:
    """A network's sound statements: *prefixes* and *ranges* that make sense, *routers* by prefix; *unsound* ranges are known by name.

    *sound* is the statement with nothing but its sound prefixes and gateway, for the arithmetic of `pinion.site.allocation`.
    """

    name: str
    network: Network
    sound: Network
    prefixes: tuple[Prefix, ...] = ()
    ranges: dict[str, AddressRange] = field(default_factory=dict)
    unsound: set[str] = field(default_factory=set)
    dhcp: AddressRange | None = None
    routers: dict[Prefix, Address | None] = field(default_factory=dict)

    def home(self, address: Address) -> Prefix | None:
        """The prefix that holds *address*."""
        return next((prefix for prefix in self.prefixes if address in prefix), None)


@dataclass(frozen=True, slots=True)
class Node:
    """One device by its name, with the key that states it."""

    name: str
    kind: str
    path: Path


class Facts:
    """Everything that a rule may ask, and where it reports."""

    def __init__(self, shaped: Shaped, catalog: Catalog, report: Report) -> None:
        self.site: Site = shaped.site
        self.catalog = catalog
        self.report = report
        self.subnets: dict[str, Subnet] = {}
        self._shaped = shaped

    def has(self, path: Path) -> bool:
        """Whether the file states something at *path*, usable or not."""
        return self._shaped.entry(path) is not None

    def guessed(self, path: Path) -> bool:
        """Whether a placeholder stands at *path*, for a value that is missing or bad and told already."""
        return self._shaped.guessed(path)

    def unsound(self, path: Path) -> bool:
        """Whether what the file states at *path* is not what stands there in `site`: it has a problem of its own."""
        return self._shaped.quiet(path) or path in self._shaped.dropped

    def whole(self, path: Path, usable: Sized) -> bool:
        """Whether all entries that the file has at *path* are among the *usable* ones."""
        entry = self._shaped.entry(path)
        return entry is not None and isinstance(entry.node, TreeMapping) and len(entry.node.entries) == len(usable)

    def lacks(self, section: str) -> bool:
        """Whether the file has nothing in *section*; one that could not be read is not nothing."""
        entry = self._shaped.entry((section,))
        if entry is None:
            return not self._shaped.root.faulty
        return isinstance(entry.node, TreeMapping) and not entry.node.entries and not entry.node.faulty

    def may_be_node(self, name: str) -> bool:
        """Whether *name* may be a node of a group of Pis whose numbers are not known."""
        group = name.rpartition("-")[0]
        return group in self.stated("pis") and (group not in self.site.pis or self.guessed(("pis", group, "numbers")))

    # --- names -------------------------------------------------------------------------------------------------------------

    def stated(self, section: str) -> tuple[str, ...]:
        """The names that the file has in *section*, usable or not."""
        entry = self._shaped.entry((section,))
        return tuple(entry.node.entries) if entry is not None and isinstance(entry.node, TreeMapping) else ()

    def known(
        self,
        code: str,
        path: Path,
        name: str,
        section: str,
        usable: Mapping[str, object],
        *,
        beside: str = "{}",
        fits: Callable[[str], bool] | None = None,
    ) -> bool:
        """Whether *name* is usable; reports *code* at *path* when the file's *section* does not have it at all.

        *beside* is what else the value at *path* says, with ``{}`` for the name; *fits* says which names can be there.
        """
        if name in usable:
            return True
        if self.report.full:
            return False
        names = self.stated(section)
        # A section that must be there and is not has been reported itself, and so has a name that stands for two.
        if name not in names and (names or section not in REQUIRED) and not self._doubled(section):
            fitting = list(filter(fits, names)) if fits is not None else names
            hint = self.report.hint(name, fitting) if fitting else Fix(f"state one under '{section}', and name it here")
            texts = tuple(beside.replace("{}", text) for text in hint.texts)
            self.report.on(code, path, name=name, hint=replace(hint, texts=texts))
        return False

    def _doubled(self, section: str) -> bool:
        entry = self._shaped.entry((section,))
        return entry is not None and isinstance(entry.node, TreeMapping) and entry.node.doubled

    # --- devices -----------------------------------------------------------------------------------------------------------

    def named(self) -> Iterator[tuple[str, str, Switch | ManagementHost | GpuServer]]:
        """Every device with a name of its own: section, name, statement."""
        for name, switch in self.site.switches.items():
            yield "switches", name, switch
        for name, host in self.site.management_hosts.items():
            yield "management_hosts", name, host
        for name, server in self.site.gpu_servers.items():
            yield "gpu_servers", name, server

    def pis(self) -> Iterator[tuple[str, PiGroup, tuple[int, ...]]]:
        """Every group of Pis with its numbers; no numbers of the groups with which the site has more nodes than a site can have."""
        total = 0
        for name, group in self.site.pis.items():
            members = numbers(group.numbers) if total <= MAXIMUM_EXPANSION else ()
            total += len(members)
            yield name, group, members if total <= MAXIMUM_EXPANSION else ()

    def nodes(self) -> Iterator[Node]:
        """Every single device of the site."""
        for section, name, _ in self.named():
            yield Node(name, section, (section, name))
        for group_name, _, members in self.pis():
            for number in members:
                yield Node(node_name(group_name, number), "pis", ("pis", group_name, "numbers"))


def ordinal(name: str) -> int:
    """The ordinal, from 0, that a named device has in its range; -1 when its name ends in 0."""
    return identity_number(name) - 1
