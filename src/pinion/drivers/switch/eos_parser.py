"""Arista EOS configuration text to `SwitchState`: a parser of its own, which shares nothing with the template that renders such text.

Nothing is dropped silently: a line inside our scope that has no typed field ends up in `other`, so it shows as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_interface, ip_network

from pinion.drivers.switch.eos_qos_parser import QosReader
from pinion.plan.model import (
    DEFAULT_MTU,
    DEFAULT_VLAN,
    SSH_LIST,
    Mode,
    PortState,
    SshGuard,
    SviState,
    SwitchState,
    VlanState,
    ordered_addresses,
    port_order,
)

_ETHERNET = re.compile(r"interface (Ethernet\d+(?:/\d+)*)")
_SVI = re.compile(r"interface Vlan(\d+)")
_VLAN = re.compile(r"vlan ([\d,-]+)")
_SSH_LIST = re.compile(rf"(ip|ipv6) access-list standard {SSH_LIST}")
#: The list that SSH asks in the default VRF, which the gateways are in.
_SSH_ASKS = re.compile(r"(ip|ipv6) access-group (\S+) in")
_RULE_NUMBER = re.compile(r"^\d+ ")
_NUMBER = re.compile(r"\d+")
_MODES: dict[str, Mode] = {"access": "access", "trunk": "trunk"}


@dataclass(slots=True)
class _Block:
    """A top-level line and the lines indented below it, stripped, with how many spaces each had."""

    header: str
    lines: list[str] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)


def parse(text: str) -> SwitchState:
    """The declared scope of the configuration *text*. Lines outside the scope are passed over."""
    vlans: dict[int, VlanState] = {}
    ports: dict[str, PortState] = {}
    svis: dict[int, SviState] = {}
    ip_routing = ipv6_routing = False
    virtual_router_mac = None
    guards = {"ip": SshGuard(), "ipv6": SshGuard()}
    qos = QosReader()
    for block in _blocks(text):
        if qos.take(block.header, block.lines, block.depths):
            continue
        if match := _VLAN.fullmatch(block.header):
            vlans |= {vid: _vlan(vid, block.lines) for vid in parse_vids(match[1])}
        elif match := _ETHERNET.fullmatch(block.header):
            ports[match[1]] = _PortReader(match[1]).read(block.lines)
        elif match := _SVI.fullmatch(block.header):
            svis[int(match[1])] = _SviReader(int(match[1])).read(block.lines)
        elif block.header in {"ip routing", "no ip routing"}:
            ip_routing = block.header == "ip routing"
        elif block.header in {"ipv6 unicast-routing", "no ipv6 unicast-routing"}:
            ipv6_routing = block.header == "ipv6 unicast-routing"
        elif block.header.startswith("ip virtual-router mac-address "):
            virtual_router_mac = block.header.split()[-1].lower()
        elif match := _SSH_LIST.fullmatch(block.header):
            guards[match[1]] = _ssh_list(guards[match[1]], block.lines)
        elif block.header == "management ssh":
            for asked in filter(None, map(_SSH_ASKS.fullmatch, block.lines)):
                guards[asked[1]] = guards[asked[1]].model_copy(update={"asked": asked[2]})
    return SwitchState(
        vlans=tuple(vlans[vid] for vid in sorted(vlans) if vlans[vid] != VlanState(vid=DEFAULT_VLAN)),
        ports=tuple(ports[name] for name in sorted(ports, key=port_order)),
        svis=tuple(svis[vid] for vid in sorted(svis)),
        ip_routing=ip_routing,
        ipv6_routing=ipv6_routing,
        virtual_router_mac=virtual_router_mac,
        ssh_ipv4=guards["ip"],
        ssh_ipv6=guards["ipv6"],
        qos=qos.read(),
    )


def parse_vids(text: str) -> tuple[int, ...]:
    """``100-102,200`` as identifiers, sorted. `ValueError` for anything else."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(found))


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    for raw in text.splitlines():
        line = raw.rstrip()
        if not line.strip() or line.lstrip().startswith("!"):
            continue
        if line[0] != " ":
            if block is not None:
                yield block
            block = _Block(line)
        elif block is not None:
            block.lines.append(line.strip())
            block.depths.append(len(line) - len(line.lstrip()))
    if block is not None:
        yield block


def _ssh_list(guard: SshGuard, lines: list[str]) -> SshGuard:
    """*guard* with the rules of our list. That it ends by refusing all others goes without saying."""
    allowed, other = [], []
    for number, line in enumerate(lines, start=1):
        rule = _RULE_NUMBER.sub("", line)
        try:
            if not rule.startswith("permit "):
                raise ValueError(rule)
            allowed.append(str(ip_network(rule.removeprefix("permit ").removeprefix("host "))))
        except ValueError:
            if rule != "deny any" or number != len(lines):
                other.append(rule)
    return guard.model_copy(update={"allowed": tuple(allowed), "other": tuple(other)})


def _vlan(vid: int, lines: list[str]) -> VlanState:
    name = None
    other = []
    for line in lines:
        if line.startswith("name "):
            name = line.removeprefix("name ")
        else:
            other.append(line)
    return VlanState(vid=vid, name=name, other=tuple(other))


class _Reader:
    """Reads the lines of one block: each goes to the handler with the longest matching beginning, or to `other`."""

    def __init__(self) -> None:
        self.other: list[str] = []
        self.description = ""
        self.enabled = True
        self.handlers: dict[str, Callable[[str], bool]] = {"description": self._describe, "shutdown": self._shut}

    def consume(self, lines: list[str]) -> None:
        for line in lines:
            if line == "no shutdown":
                continue
            keyword = max(
                (key for key in self.handlers if line == key or line.startswith(f"{key} ")), key=len, default=None
            )
            if keyword is None or not self.handlers[keyword](line[len(keyword) :].strip()):
                self.other.append(line)

    def _describe(self, value: str) -> bool:
        self.description = value
        return True

    def _shut(self, value: str) -> bool:
        self.enabled = False
        return not value


class _PortReader(_Reader):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.mode: Mode = "access"
        self.access = self.native = DEFAULT_VLAN
        self.trunk: tuple[int, ...] | None = None
        self.mtu: int | None = None
        self.qos_profile: str | None = None
        self.handlers |= {
            "switchport mode": self._mode,
            "switchport access vlan": self._access,
            "switchport trunk native vlan": self._native,
            "switchport trunk allowed vlan": self._allowed,
            "switchport": lambda value: not value,
            "no switchport": self._routed,
            "l2 mtu": self._mtu,
            "service-profile": self._qos_profile,
        }

    def read(self, lines: list[str]) -> PortState:
        self.consume(lines)
        return PortState(
            name=self.name,
            description=self.description,
            enabled=self.enabled,
            mode=self.mode,
            access_vlan=self.access,
            native_vlan=self.native,
            trunk_vlans=self.trunk,
            mtu=self.mtu,
            qos_profile=self.qos_profile,
            other=tuple(self.other),
        )

    def _qos_profile(self, value: str) -> bool:
        if len(value.split()) != 1:
            return False
        self.qos_profile = value
        return True

    def _mode(self, value: str) -> bool:
        if value not in _MODES:
            return False
        self.mode = _MODES[value]
        return True

    def _routed(self, value: str) -> bool:
        if value:
            return False
        self.mode = "routed"
        return True

    def _access(self, value: str) -> bool:
        if not _NUMBER.fullmatch(value):
            return False
        self.access = int(value)
        return True

    def _native(self, value: str) -> bool:
        if not _NUMBER.fullmatch(value):
            return False
        self.native = int(value)
        return True

    def _allowed(self, value: str) -> bool:
        if value in {"all", "1-4094"}:
            self.trunk = None
            return True
        if value == "none":
            self.trunk = ()
            return True
        add = value.startswith("add ")
        try:
            vids = parse_vids(value.removeprefix("add "))
        except ValueError:
            return False
        self.trunk = tuple(sorted({*(self.trunk or ()), *vids})) if add else vids
        return True

    def _mtu(self, value: str) -> bool:
        if not _NUMBER.fullmatch(value):
            return False
        self.mtu = int(value)
        return True


class _SviReader(_Reader):
    def __init__(self, vid: int) -> None:
        super().__init__()
        self.vid = vid
        self.mtu = DEFAULT_MTU
        self.own: list[str] = []
        self.virtual: list[str] = []
        self.handlers |= {
            "mtu": self._mtu,
            "ip address": lambda value: self._address(self.own, value),
            "ipv6 address": lambda value: self._address(self.own, value),
            "ip address virtual": lambda value: self._address(self.virtual, value),
            "ipv6 address virtual": lambda value: self._address(self.virtual, value),
        }

    def read(self, lines: list[str]) -> SviState:
        self.consume(lines)
        return SviState(
            vid=self.vid,
            description=self.description,
            enabled=self.enabled,
            mtu=self.mtu,
            addresses=ordered_addresses(self.own),
            virtual_addresses=ordered_addresses(self.virtual),
            other=tuple(self.other),
        )

    def _mtu(self, value: str) -> bool:
        if not _NUMBER.fullmatch(value):
            return False
        self.mtu = int(value)
        return True

    @staticmethod
    def _address(into: list[str], value: str) -> bool:
        try:
            address = str(ip_interface(value.removesuffix(" secondary")))
        except ValueError:
            return False
        into.append(address)
        return True
