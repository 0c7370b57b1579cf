"""Every switch port: it is on the model, it is free, it runs the speed of what is plugged in; and the links between switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pinion.site.allocation import node_name
from pinion.site.catalog import Port
from pinion.site.errors import Path
from pinion.site.fixes import Fix, one_of
from pinion.site.model import GpuServer, PiGroup, Switch
from pinion.site.quantities import SwitchPorts, port_names, switch_ports
from pinion.site.rules.facts import Facts


def check(facts: Facts) -> None:
    """All rules about ports."""
    panel = _Panel(facts)
    for name, switch in facts.site.switches.items():
        _links(facts, panel, name, switch)
    for name, host in facts.site.management_hosts.items():
        profile = facts.catalog.servers.get(host.profile)
        inner = profile.ports[1] if profile is not None and len(profile.ports) > 1 else None
        panel.one(("management_hosts", name, "port"), host.port, name, inner, host.fabric_network)
    for name, server in facts.site.gpu_servers.items():
        _gpu_server(facts, panel, name, server)
    for name, group, members in facts.pis():
        _pis(facts, panel, name, group, members)
    panel.kept()
    _joined(facts, panel)


@dataclass(frozen=True, slots=True)
class _Use:
    owner: str
    path: Path


class _Panel:
    """The front ports of all switches, and what is plugged in where."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._models = {
            name: facts.catalog.switches[switch.model]
            for name, switch in facts.site.switches.items()
            if switch.model in facts.catalog.switches
        }
        self._speeds = {
            name: {port: group.speeds for group in model.ports for port in group.each()}
            for name, model in self._models.items()
        }
        self._used: dict[tuple[str, str], _Use] = {}
        self._clashes: set[tuple[str, str]] = set()
        self._kept: list[tuple[str, str, _Use]] = []
        #: network -> the switches that have a host of it
        self.reach: dict[str, set[str]] = {}

    def speeds(self, switch: str, port: str) -> tuple[int, ...]:
        """Every speed of *port* in Mbit/s; none when it is not known."""
        return self._speeds.get(switch, {}).get(port, ())

    def plug(
        self,
        path: Path,
        switch: str,
        ports: Iterable[tuple[str, str]],
        far: Port | None,
        network: str | None,
        stated: str | None = None,
    ) -> None:
        """Plug into each of *ports* of *switch* its owner, whose own port is *far*. One problem of a kind is enough for one statement.

        *stated*: the value that names switch and ports, where one value does.
        """
        beside = "{}" if stated is None else f"{{}} {stated.strip().partition(' ')[2]}"
        if not self._facts.known("PORT-001", path, switch, "switches", self._facts.site.switches, beside=beside):
            return
        report = self._facts.report
        if network is not None:
            self.reach.setdefault(network, set()).add(switch)
        told: set[str] = set()
        for port, owner in ports:
            other = self._used.get((switch, port))
            code, said = self._refusal(path, switch, port, owner, far)
            if code is not None and code not in told:
                told.add(code)
                if code == "PORT-003" and other is not None and report.line(other.path) > report.line(path):
                    report.on(code, other.path, switch=switch, port=port, owner=other.owner, other=owner)
                else:
                    report.on(code, path, switch=switch, port=port, owner=owner, **said)

    def _refusal(
        self, path: Path, switch: str, port: str, owner: str, far: Port | None
    ) -> tuple[str | None, dict[str, str]]:
        model = self._models.get(switch)
        if model is not None and port == model.management_port.name:
            return "PORT-014", {}
        if model is not None and port not in self._speeds[switch]:
            return "PORT-002", {"model": model.model, "ports": ", ".join(group.names for group in model.ports)}
        other = self._used.setdefault((switch, port), _Use(owner, path))
        if other.path != path:
            self._clashes.add((switch, port))
            return "PORT-003", {"other": other.owner}
        if model is not None and far is not None and not set(far.speeds) & set(self.speeds(switch, port)):
            speeds = self.speeds(switch, port)
            return "PORT-005", {"can": _speeds(far.speeds), "cannot": _speeds(speeds), "far": far.name}
        return None, {}

    def one(self, path: Path, written: str, owner: str, far: Port | None, network: str | None) -> None:
        """Plug *owner* into the one port that *written* must name."""
        named = switch_ports(written)
        if len(named.ports) != 1:
            example = f"{named.switch} {named.ports[0]}"
            self._facts.report.on("PORT-006", path, owner=owner, count=len(named.ports), port=example)
        self.plug(path, named.switch, [(named.ports[0], owner)], far, network, written)

    def keep(self, path: Path, ports: SwitchPorts, group: str) -> None:
        """Remember that *ports*, stated at *path*, are kept for the numbers that *group* may get."""
        self._kept += [(ports.switch, port, _Use(group, path)) for port in ports.ports]

    def kept(self) -> None:
        """Report every port that is kept for a group and is none, belongs to another group, or is used by something else."""
        first: dict[tuple[str, str], _Use] = {}
        told: set[tuple[str, Path]] = set()
        for switch, port, group in self._kept:
            use = self._used.get((switch, port))
            other = first.setdefault((switch, port), group)
            if use is not None:
                if use.path[:2] != ("pis", group.owner) and (switch, port) not in self._clashes:
                    said = {"switch": switch, "port": port, "owner": use.owner, "group": group.owner}
                    self._facts.report.on("PORT-016", use.path, **said)
                continue
            code, said = self._not_kept(switch, port, group, other)
            if code is not None and (code, group.path) not in told:
                told.add((code, group.path))
                self._facts.report.on(code, group.path, switch=switch, port=port, **said)

    def _not_kept(self, switch: str, port: str, group: _Use, other: _Use) -> tuple[str | None, dict[str, str]]:
        """Why *port*, which no node uses yet, cannot be kept for *group*."""
        model = self._models.get(switch)
        if model is not None and port == model.management_port.name:
            return "PORT-014", {"owner": group.owner}
        if model is not None and port not in self._speeds[switch]:
            return "PORT-002", {"model": model.model, "ports": ", ".join(each.names for each in model.ports)}
        if other.path[:2] != group.path[:2]:
            return "PORT-017", {"group": group.owner, "other": other.owner}
        return None, {}


def _speeds(speeds: Iterable[int]) -> str:
    """Speeds as people say them: ``1G, 10G``."""
    return ", ".join(f"{speed // 1000}G" if speed >= 1000 else f"{speed}M" for speed in speeds)


def _repeated(facts: Facts, path: Path, names: tuple[str, ...], switch: str = "") -> bool:
    """Whether a list names one port twice; reported. *switch* is what stands before it, with its space."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            once = switch + ",".join(dict.fromkeys(names))
            facts.report.on("PORT-007", path, port=name, once=once)
            return True
        seen.add(name)
    return False


# --- hosts ----------------------------------------------------------------------------------------------------------------


def _gpu_server(facts: Facts, panel: _Panel, name: str, server: GpuServer) -> None:
    profile = facts.catalog.servers.get(server.profile)
    panel.one(("gpu_servers", name, "port"), server.port, name, profile.ports[0] if profile else None, server.network)
    if server.rdma is None:
        return
    path: Path = ("gpu_servers", name, "rdma", "ports")
    total = 0
    for switch, written in server.rdma.ports.items():
        names = port_names(written)
        total += len(names)
        far = profile.rdma_ports[0] if profile is not None and profile.rdma_ports else None
        if not _repeated(facts, (*path, switch), names):
            panel.plug((*path, switch), switch, [(port, f"{name} (RDMA)") for port in names], far, server.rdma.network)
    if (
        facts.whole(path, server.rdma.ports)
        and profile is not None
        and profile.rdma_ports
        and total != len(profile.rdma_ports)
    ):
        facts.report.on_key(
            "PORT-008", path, name=name, total=total, nics=len(profile.rdma_ports), profile=server.profile
        )


def _pis(facts: Facts, panel: _Panel, name: str, group: PiGroup, members: tuple[int, ...]) -> None:
    path: Path = ("pis", name, "ports")
    board = facts.catalog.boards.get(group.board)
    far = board.port if board is not None else None
    ports = switch_ports(group.ports)
    stated = {number: override.port for number, override in group.nodes.items() if override.port is not None}
    for number, written in stated.items():
        if number in members:
            panel.one(("pis", name, "nodes", number, "port"), written, node_name(name, number), far, group.network)
    if _repeated(facts, path, ports.ports, f"{ports.switch} "):
        return
    below = next((number for number in members if number < group.first and number not in stated), None)
    if below is not None:
        facts.report.on("ADDR-011", ("pis", name, "numbers"), number=below, first=group.first)
    wanted = [number - group.first for number in members if number not in stated and number >= group.first]
    missing = [position for position in wanted if position >= len(ports.ports)]
    if missing:
        owner = node_name(name, missing[0] + group.first)
        facts.report.on("PORT-004", path, owner=owner, count=len(ports.ports), position=missing[0] + 1)
    given = [
        (ports.ports[position], node_name(name, position + group.first))
        for position in wanted
        if position < len(ports.ports)
    ]
    panel.plug(path, ports.switch, given, far, group.network, group.ports)
    panel.keep(path, ports, name)


# --- links between switches -----------------------------------------------------------------------------------------------


def _links(facts: Facts, panel: _Panel, name: str, switch: Switch) -> None:
    path: Path = ("switches", name)
    if switch.uplinks is not None:
        ports = port_names(switch.uplinks)
        if not _repeated(facts, (*path, "uplinks"), ports):
            panel.plug((*path, "uplinks"), name, [(port, f"the uplink of {name}") for port in ports], None, None)
    if switch.pair_ports is not None:
        ports = port_names(switch.pair_ports)
        if not _repeated(facts, (*path, "pair_ports"), ports):
            panel.plug((*path, "pair_ports"), name, [(port, f"the pair link of {name}") for port in ports], None, None)
    if switch.pair is not None or switch.pair_ports is not None:
        _pair(facts, panel, name, switch)


def _pair(facts: Facts, panel: _Panel, name: str, switch: Switch) -> None:
    path: Path = ("switches", name)
    report = facts.report
    if switch.pair is None:
        if not facts.has((*path, "pair")):
            report.on_key("PORT-011", (*path, "pair_ports"), name=name, stated="pair_ports", missing="pair")
        return
    if switch.pair == name:
        waiting = [other for other, stated in facts.site.switches.items() if stated.pair == name != other]
        fix = one_of(waiting, "name the other switch: {}") if waiting else Fix("name the other switch")
        report.on("PORT-010", (*path, "pair"), name=name, fix=fix)
        return
    if switch.pair_ports is None and not facts.has((*path, "pair_ports")):
        report.on_key("PORT-011", (*path, "pair"), name=name, stated="pair", missing="pair_ports")
    if not facts.known("PORT-001", (*path, "pair"), switch.pair, "switches", facts.site.switches):
        return
    far = facts.site.switches[switch.pair]
    if far.pair != name:
        # One that names no switch is told as that.
        unknown = far.pair is not None and far.pair not in facts.stated("switches")
        if not unknown and (not facts.has(("switches", switch.pair, "pair")) or far.pair is not None):
            report.on("PORT-009", (*path, "pair"), name=name, pair=switch.pair, other=far.pair or "none")
        return
    if (
        switch.pair_ports is None
        or far.pair_ports is None
        or report.line(path) > report.line(("switches", switch.pair))
    ):
        return
    own, others = port_names(switch.pair_ports), port_names(far.pair_ports)
    where = ("switches", switch.pair, "pair_ports")
    if len(own) != len(others):
        report.on("PORT-012", where, name=switch.pair, count=len(others), other=name, others=len(own))
        return
    for near_port, far_port in zip(own, others, strict=True):
        speeds, far_speeds = panel.speeds(name, near_port), panel.speeds(switch.pair, far_port)
        if speeds and far_speeds and not set(speeds) & set(far_speeds):
            near_end, far_end = f"{name} {near_port}", f"{switch.pair} {far_port}"
            report.on("PORT-013", where, near=near_end, can=_speeds(speeds), far=far_end, cannot=_speeds(far_speeds))
            return


def _joined(facts: Facts, panel: _Panel) -> None:
    """Whether the switches that share a network are joined: as a pair, or through the uplinks that both have."""
    island = {name: name for name in facts.site.switches}

    def root(name: str) -> str:
        while island[name] != name:
            island[name] = island[island[name]]
            name = island[name]
        return name

    for one, other in _edges(facts):
        island[root(one)] = root(other)
    for network, switches in panel.reach.items():
        known = sorted(switches & set(island))
        roots = {root(name): name for name in known}
        if len(roots) > 1 and network in facts.site.networks:
            facts.report.on_key("PORT-015", ("networks", network), name=network, switches=" and ".join(roots.values()))


def _edges(facts: Facts) -> Iterator[tuple[str, str]]:
    # A pair that only one side states is reported as such; here it counts, so that it is told once.
    outside = [name for name, switch in facts.site.switches.items() if switch.uplinks is not None]
    yield from ((outside[0], name) for name in outside[1:])
    for name, switch in facts.site.switches.items():
        if switch.pair in facts.site.switches:
            yield name, str(switch.pair)
