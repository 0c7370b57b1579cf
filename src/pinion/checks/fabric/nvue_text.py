"""NVUE configuration of Cumulus Linux to what it says of traffic classes, VLANs and MTU, each statement with its line.

Where EOS has one QoS profile, NVUE has one a kind: those of one name are one here. Each may bring a map of its own; two that disagree are
odd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pinion.checks.fabric.said import Said, SaidEcn, SaidPort, SaidProfile, SaidQueue, SaidSwitch, UnreadableError
from pinion.drivers.switch.nvue_tree import Node, NotNvueError, read_tree

_KINDS = ("congestion-control", "egress-scheduler", "mapping", "pfc", "remark")
_BRIDGE = ("bridge", "domain", "br_default")
_TRUST = {"l3": "dscp", "l2": "cos"}
#: The platform's own profile, which ports have that take none.
_GLOBAL = "default-global"


def read_switch(file: str, text: str) -> SaidSwitch:
    """What the NVUE configuration *text* says; *file* is how statements call it. Raises `UnreadableError`."""
    try:
        tree = read_tree(text)
    except NotNvueError as error:
        raise UnreadableError(error.line, str(error)) from error
    reader = _Reader(file, tree.root)
    for before, line, key in tree.twice:
        reader.odd(before, f"`{key}` is written twice")
        reader.odd(line, f"`{key}` is written twice")
    return reader.read()


class _Reader:
    """Goes through the tree below *root*."""

    def __init__(self, file: str, root: Node) -> None:
        self.switch = SaidSwitch(file)
        self.root = root

    def read(self) -> SaidSwitch:
        for name, node in self.root.below("interface").items():
            if re.fullmatch(r"swp\d+(s\d+)?", name):
                self._port(name, node)
            elif match := re.fullmatch(r"vlan(\d+)", name):
                self._gateway(int(match[1]), node)
        for name in sorted({name for kind in _KINDS for name in self.root.below("qos", kind)} - {_GLOBAL}):
            self._profile(name)
        for number, node in _numbered(self.root, "qos", "egress-queue-mapping", _GLOBAL, "switch-priority"):
            self._entry("tx-queue", number, node, "traffic-class")
        self._watchdog()
        if (preset := self.root.at("qos", "roce")) is not None and preset.text("enable") != "off":
            self.odd(preset.line, "the RoCE preset is on, which has shares, pools and priorities of its own")
        for pool, percents in (("default-lossless", self.switch.lossless), ("default-lossy", self.switch.lossy)):
            percents += self.values(self.root, "qos", "traffic-pool", pool, "memory-percent")
        return self.switch

    def odd(self, line: int, wrong: str) -> None:
        self.switch.odd.append(Said(wrong, self.switch.file, line))

    def number(self, value: int, node: Node) -> Said[int]:
        return Said(value, self.switch.file, node.line)

    def values(self, node: Node, *path: str) -> list[Said[int]]:
        """The number that stands at *path* below *node*, if one does."""
        found = node.at(*path)
        if found is None or found.value is None:
            return []
        if not found.value.isdecimal():
            self.odd(found.line, f"`{path[-1]}` is no number")
            return []
        return [self.number(int(found.value), found)]

    def value(self, node: Node, *path: str) -> Said[int] | None:
        return next(iter(self.values(node, *path)), None)

    # --- ports and gateways ---------------------------------------------------------------------------------------------

    def _port(self, name: str, node: Node) -> None:
        port = SaidPort(Said(name, self.switch.file, node.line))
        port.shut = node.at("link", "state", "down") is not None
        port.access_vlan = self.value(node, *_BRIDGE, "access")
        vids = node.at(*_BRIDGE, "vlan")
        if vids is not None:
            numbers = frozenset(number for number, _ in _numbered(vids))
            port.trunk_vlans = Said(numbers, self.switch.file, vids.line)
            port.trunk_lines = {number: member.line for number, member in _numbered(vids)}
        port.mtu = self.value(node, "link", "mtu")
        taken = node.at("qos", "mapping", "profile")
        if taken is not None and taken.value is not None:
            port.profile = Said(taken.value, self.switch.file, taken.line)
        self.switch.ports[name] = port

    def _gateway(self, vid: int, node: Node) -> None:
        mtu, said = self.value(node, "link", "mtu"), self.value(node, "vlan")
        if mtu is not None:
            self.switch.gateways[vid] = mtu
        if said is not None and said.value != vid:
            self.odd(said.line, f"interface vlan{vid} is of VLAN {said.value}")

    # --- traffic classes ------------------------------------------------------------------------------------------------

    def _entry(self, kind: str, source: int, node: Node, key: str) -> None:
        """One entry of a map, at the line of what it leads to; where its number stands is kept beside."""
        to = self.value(node, key)
        if to is None:
            return
        before = self.switch.maps.get((kind, source))
        if before is None:
            self.switch.maps[kind, source] = to
            self.switch.sources[kind, source] = [node.line]
            return
        self.switch.sources[kind, source].append(node.line)
        if before.value != to.value:
            self.odd(to.line, f"`{key}` of {source} is {to.value}, and {before.value} in another profile")

    def _profile(self, name: str) -> None:
        kinds = {kind: node for kind in _KINDS if (node := self.root.at("qos", kind, name)) is not None}
        profile = SaidProfile(Said(name, self.switch.file, min(node.line for node in kinds.values())))
        self.switch.profiles[name] = profile
        if (mapping := kinds.get("mapping")) is not None:
            trust = mapping.at("trust")
            if trust is not None:
                profile.trust = Said(_TRUST.get(trust.value or "", trust.value or ""), self.switch.file, trust.line)
            for number, node in _numbered(mapping, "dscp"):
                self._entry("dscp", number, node, "switch-priority")
        for number, node in _numbered(kinds.get("remark", Node(0)), "switch-priority"):
            self._entry("cos", number, node, "pcp")
        for number, node in _numbered(kinds.get("egress-scheduler", Node(0)), "traffic-class"):
            profile.queues[number] = self._queue(number, node)
        for number, node in _numbered(kinds.get("congestion-control", Node(0)), "traffic-class"):
            queue = profile.queues.setdefault(number, SaidQueue(self.number(number, node), strict=False))
            queue.ecn = self._ecn(node)
        if (paused := kinds.get("pfc")) is not None:
            profile.pfc = Said(True, self.switch.file, paused.line)
            profile.no_drop = [self.number(number, node) for number, node in _numbered(paused, "switch-priority")]
            profile.cable = self.value(paused, "cable-length")
        watched = [
            port.at("qos", "pfc-watchdog")
            for port in self.root.below("interface").values()
            if port.text("qos", "pfc", "profile") == name and port.text("qos", "pfc-watchdog", "state") == "enable"
        ]
        profile.watchdog = next((Said(True, self.switch.file, node.line) for node in watched if node is not None), None)

    def _queue(self, number: int, node: Node) -> SaidQueue:
        return SaidQueue(
            self.number(number, node),
            strict=node.text("mode") == "strict",
            share=self.value(node, "bw-percent"),
        )

    def _ecn(self, node: Node) -> Said[SaidEcn] | None:
        found = [self.value(node, key) for key in ("min-threshold", "max-threshold", "probability")]
        if node.text("ecn") == "disable" or None in found:
            return None
        low, high, probability = (said for said in found if said is not None)
        ecn = SaidEcn(low.value / 1000, high.value / 1000, probability.value, (low.line, high.line, probability.line))
        return Said(ecn, self.switch.file, node.line)

    def _watchdog(self) -> None:
        held = self.root.at("qos", "pfc-watchdog")
        if held is None:
            return
        polling, times = self.value(held, "polling-interval"), self.value(held, "robustness")
        if polling is not None:
            self.switch.timers |= {"polling-interval": polling, "recovery-time": polling}
            if times is not None:
                self.switch.timers["timeout"] = Said(polling.value * times.value, self.switch.file, times.line)
        self.switch.action = Said("drop", self.switch.file, held.line)


def _numbered(node: Node, *path: str) -> Iterator[tuple[int, Node]]:
    """The children of *node* at *path* whose key is a number."""
    yield from ((int(key), child) for key, child in node.below(*path).items() if key.isdecimal())
