"""Boards, HATs, models, profiles, platforms, racks, and the marks that one device carries: name, serial number, MAC address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pinion.site.catalog import Hardware, Server
from pinion.site.errors import Path
from pinion.site.fixes import Fix, one_of
from pinion.site.model import PiGroup
from pinion.site.quantities import MAXIMUM_EXPANSION
from pinion.site.rules.facts import Facts

#: The platform whose firmware reads config.txt and cmdline.txt as they are; plain Debian makes them by a package of its own.
FIRMWARE_PLATFORM = "raspberry-pi-os"
#: RFC 1035: a label has at most 63 characters.
MAXIMUM_LABEL = 63
#: A management host has one port out-of-band and one on the fabric.
MANAGEMENT_PORTS = 2
#: What the kinds of host and Ansible's own groups are called: one group or device called so would be taken for all of them.
OWN_NAMES = frozenset({"all", "gpu-servers", "localhost", "management-hosts", "pis", "switches", "ungrouped"})

Kind = TypeVar("Kind")


def check(facts: Facts) -> None:
    """All rules about hardware."""
    _names(facts)
    units = _Units(facts)
    for name, switch in facts.site.switches.items():
        path: Path = ("switches", name)
        model = _entry(facts, "HW-003", (*path, "model"), switch.model, facts.catalog.switches)
        _platform(facts, path, switch.platform, model)
        units.mount(path, name, switch.rack, switch.unit, model.units if model else 1)
    for name, host in facts.site.management_hosts.items():
        profile = facts.catalog.servers.get(host.profile)
        fits = profile is None or len(profile.ports) >= MANAGEMENT_PORTS
        place = (host.rack, host.unit if fits else None)
        profile = _server(facts, units, ("management_hosts", name), host.profile, host.platform, place)
        if profile is not None and not fits:
            where = ("management_hosts", name, "profile")
            facts.report.on(
                "HW-017",
                where,
                name=name,
                profile=host.profile,
                has=len(profile.ports),
                needs=MANAGEMENT_PORTS,
                fix=_profiles(facts, _is_management_host),
            )
    for name, server in facts.site.gpu_servers.items():
        profile = _server(
            facts, units, ("gpu_servers", name), server.profile, server.platform, (server.rack, server.unit)
        )
        if profile is not None and not profile.nvlink:
            fix = _profiles(facts, _is_gpu_server(facts))
            facts.report.on("HW-018", ("gpu_servers", name, "profile"), name=name, profile=server.profile, fix=fix)
        if profile is not None and server.rdma is not None and not profile.rdma_ports:
            facts.report.on_key("HW-011", ("gpu_servers", name, "rdma"), name=name, profile=server.profile)
    for name, group in facts.site.pis.items():
        _pis(facts, ("pis", name), group)
    _marks(facts)


def _is_management_host(profile: Server) -> bool:
    return len(profile.ports) >= MANAGEMENT_PORTS and not profile.nvlink and not profile.lab_only


def _is_gpu_server(facts: Facts) -> Callable[[Server], bool]:
    """Which profiles a GPU server can have beside the concerns of the site."""
    divided = facts.has(("concerns", "cpu_isolation"))
    return lambda profile: bool(profile.nvlink) and (profile.numa is not None or not divided)


def _profiles(facts: Facts, fits: Callable[[Server], bool]) -> Fix:
    """The profiles of the catalogue that fit."""
    return one_of(
        (name for name, profile in facts.catalog.servers.items() if fits(profile)), "name another profile: {}"
    )


# --- the catalogue --------------------------------------------------------------------------------------------------------


def _entry(
    facts: Facts, code: str, path: Path, name: str, known: dict[str, Kind], fitting: Iterable[str] | None = None
) -> Kind | None:
    """The catalogue's entry *name*; an unknown one is reported as *code*, with those that are *fitting* there."""
    if name not in known:
        facts.report.on(code, path, name=name, hint=facts.report.hint(name, fitting if fitting is not None else known))
    return known.get(name)


def _server(
    facts: Facts, units: _Units, path: Path, profile: str, platform: str, place: tuple[str, int | None]
) -> Server | None:
    fits = _is_gpu_server(facts) if path[0] == "gpu_servers" else _is_management_host
    fitting = [each for each, hardware in facts.catalog.servers.items() if fits(hardware)]
    found = _entry(facts, "HW-004", (*path, "profile"), profile, facts.catalog.servers, fitting)
    _platform(facts, path, platform, found)
    units.mount(path, str(path[1]), *place, found.units if found else 1)
    return found


def _platform(facts: Facts, path: Path, name: str, hardware: Hardware | None) -> None:
    where = (*path, "platform")
    fitting: Iterable[str] = (*hardware.platforms, "lab") if hardware is not None else facts.catalog.platforms
    if path[0] == "pis" and (facts.has(("concerns", "pi_boot")) or facts.has(("concerns", "accelerator"))):
        fitting = [each for each in fitting if each in {FIRMWARE_PLATFORM, "lab"}]
    platform = _entry(facts, "HW-005", where, name, facts.catalog.platforms, fitting)
    if platform is None or hardware is None or platform.lab:
        return
    if hardware.lab_only:
        facts.report.on("HW-012", where, name=name, model=hardware.model)
    elif name not in hardware.platforms:
        fix = one_of((*hardware.platforms, "lab"))
        facts.report.on("HW-007", where, name=name, model=hardware.model, fix=fix)


def _pis(facts: Facts, path: Path, group: PiGroup) -> None:
    board = _entry(facts, "HW-001", (*path, "board"), group.board, facts.catalog.boards)
    _platform(facts, path, group.platform, board)
    facts.known("HW-008", (*path, "rack"), group.rack, "racks", facts.site.racks)
    if group.hat is None:
        return
    fitting = [name for name, known in facts.catalog.hats.items() if board is None or group.board in known.boards]
    hat = _entry(facts, "HW-002", (*path, "hat"), group.hat, facts.catalog.hats, fitting)
    if hat is not None and board is not None and group.board not in hat.boards:
        why = "" if board.pcie else ": it has no PCIe connector for a HAT"
        facts.report.on(
            "HW-006", (*path, "hat"), hat=hat.model, board=board.model, why=why, boards=", ".join(hat.boards)
        )


# --- racks ----------------------------------------------------------------------------------------------------------------


class _Units:
    """The rack units that are taken, from below."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._taken: dict[tuple[str, int], str] = {}

    def mount(self, path: Path, name: str, rack: str, unit: int | None, height: int) -> None:
        """Mount the device *name* of *height* units with its lowest unit at *unit*."""
        if not self._facts.known("HW-008", (*path, "rack"), rack, "racks", self._facts.site.racks) or unit is None:
            return
        size, where = self._facts.site.racks[rack].units, (*path, "unit")
        top = unit + height - 1
        if unit > size:
            self._facts.report.on("HW-010", where, unit=unit, rack=rack, size=size)
        elif top > size:
            highest = size - height + 1
            self._facts.report.on(
                "HW-019", where, name=name, height=height, top=top, rack=rack, size=size, highest=highest
            )
        for each in range(unit, min(top, size) + 1):
            other = self._taken.setdefault((rack, each), name)
            if other != name:
                self._facts.report.on("HW-009", where, unit=each, rack=rack, name=name, other=other)
                break


# --- names, serial numbers, MAC addresses ---------------------------------------------------------------------------------


def _names(facts: Facts) -> None:
    _many(facts)
    for path, name in ((("pis", name), name) for name in facts.site.pis):
        if name in OWN_NAMES:
            facts.report.on_key("SITE-022", path, name=name)
    for section, name, _ in facts.named():
        if name in OWN_NAMES:
            facts.report.on_key("SITE-022", (section, name), name=name)
        elif name in facts.site.pis:
            facts.report.on_key("SITE-023", (section, name), name=name)
    first: dict[str, Path] = {}
    # Groups first: a device with a name of its own is what one renames.
    for node in sorted(facts.nodes(), key=lambda node: node.kind != "pis"):
        if len(node.name) > MAXIMUM_LABEL:
            facts.report.on_key("SITE-016", node.path[:2], name=node.name, limit=MAXIMUM_LABEL)
        other = first.setdefault(node.name, node.path)
        if other != node.path:
            where = ".".join(map(str, other[:2]))
            facts.report.on_key("SITE-015", node.path[:2], name=node.name, other=where)


def _many(facts: Facts) -> None:
    """Report the group with which the site has more nodes than a site can have."""
    total = 0
    for name, _, members in facts.pis():
        total += len(members)
        if not members:
            where: Path = ("pis", name, "numbers")
            facts.report.on("SITE-024", where, name=name, limit=f"{MAXIMUM_EXPANSION:,}", total=f"{total:,}")
            return


def _marks(facts: Facts) -> None:
    serials: dict[str, Path] = {}
    macs: dict[str, Path] = {}
    for path, serial, mac in _stated_marks(facts):
        if serial:
            other = serials.setdefault(serial, path)
            if other != path:
                facts.report.on("HW-016", (*path, "serial"), serial=serial, other=".".join(map(str, other)))
        if mac is None:
            continue
        if int(mac[:2], 16) & 1 or not int(mac.replace(":", ""), 16):
            facts.report.on("HW-014", (*path, "mac"), mac=mac)
        other = macs.setdefault(mac.lower(), path)
        if other != path:
            facts.report.on("HW-015", (*path, "mac"), mac=mac, other=".".join(map(str, other)))


def _stated_marks(facts: Facts) -> Iterator[tuple[Path, str, str | None]]:
    """Every place that may state a serial number and a MAC address."""
    for section, name, device in facts.named():
        yield (section, name), device.serial, device.mac
    for name, group in facts.site.pis.items():
        for number, override in group.nodes.items():
            yield ("pis", name, "nodes", number), override.serial, override.mac
