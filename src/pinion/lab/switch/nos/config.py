"""A switch configuration as data: immutable, so that a candidate, the running configuration and a rollback are just values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .qos import Qos

#: IEEE 802.1Q: the VLAN of a port that says nothing else. It always exists.
DEFAULT_VLAN = 1
LARGEST_VID = 4094
#: Layer-3 MTU of an interface that says nothing else, octets (EOS User Manual).
DEFAULT_MTU = 1500
#: Largest MTU of the data plane, octets (as the switches in Pinion's hardware catalogue).
LARGEST_MTU = 9214


@dataclass(frozen=True)
class Vlan:
    """A VLAN. *name* None shows as ``VLAN0101``."""

    vid: int
    name: str | None = None

    @property
    def shown(self) -> str:
        """The name that commands show."""
        return self.name or ("default" if self.vid == DEFAULT_VLAN else f"VLAN{self.vid:04}")


@dataclass(frozen=True)
class Ethernet:
    """A front port. *allowed* None is every VLAN. *l2_mtu* None is the data plane's own."""

    name: str
    description: str = ""
    shutdown: bool = False
    l2_mtu: int | None = None
    trunk: bool = False
    access_vlan: int = DEFAULT_VLAN
    native_vlan: int = DEFAULT_VLAN
    allowed: frozenset[int] | None = None
    service_profile: str | None = None


@dataclass(frozen=True)
class Address:
    """An address with its mask. *virtual*: with the MAC address of the virtual router. *secondary*: not the first IPv4 address."""

    text: str
    virtual: bool = False
    secondary: bool = False

    @property
    def ipv6(self) -> bool:
        """True for IPv6."""
        return ":" in self.text


@dataclass(frozen=True)
class VlanInterface:
    """A routed VLAN interface."""

    vid: int
    description: str = ""
    shutdown: bool = False
    mtu: int = DEFAULT_MTU
    addresses: tuple[Address, ...] = ()

    @property
    def name(self) -> str:
        """``Vlan101``."""
        return f"Vlan{self.vid}"


@dataclass(frozen=True)
class Management:
    """The out-of-band interface. It never forwards."""

    name: str
    description: str = ""
    shutdown: bool = False
    addresses: tuple[Address, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One rule of a standard access list: *source* is a prefix, None for any."""

    number: int
    permit: bool
    source: str | None


@dataclass(frozen=True)
class AccessList:
    """A standard access list: its rules by number. Whom none of them names it refuses."""

    ipv6: bool
    name: str
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Config:
    """The whole configuration. The front ports and the management interface always exist: only what they hold changes.

    *access_lists* are by family (IPv6 or not) and name; *ssh_lists* names the one that SSH asks, by family.
    """

    hostname: str = "localhost"
    vlans: Mapping[int, Vlan] = field(default_factory=dict)
    ethernets: Mapping[str, Ethernet] = field(default_factory=dict)
    managements: Mapping[str, Management] = field(default_factory=dict)
    svis: Mapping[int, VlanInterface] = field(default_factory=dict)
    ip_routing: bool = False
    ipv6_routing: bool = False
    virtual_router_mac: str | None = None
    access_lists: Mapping[tuple[bool, str], AccessList] = field(default_factory=dict)
    ssh_lists: Mapping[bool, str] = field(default_factory=dict)
    qos: Qos = field(default_factory=Qos)

    def ssh_list(self, *, ipv6: bool) -> AccessList | None:
        """The list that SSH asks; None when it asks none, or one that is not there: then everybody may."""
        return self.access_lists.get((ipv6, self.ssh_lists.get(ipv6, "")))

    def with_access_list(self, known: AccessList) -> Config:
        """With the list *known* added or replaced."""
        lists = {**self.access_lists, (known.ipv6, known.name): known}
        return replace(self, access_lists={key: lists[key] for key in sorted(lists)})

    def without_access_list(self, name: str, *, ipv6: bool) -> Config:
        """Without the list *name*."""
        return replace(
            self, access_lists={key: known for key, known in self.access_lists.items() if key != (ipv6, name)}
        )

    def carries(self, vid: int) -> bool:
        """True when VLAN *vid* exists."""
        return vid == DEFAULT_VLAN or vid in self.vlans

    def with_vlan(self, vlan: Vlan) -> Config:
        """With *vlan* added or replaced."""
        return replace(self, vlans=_sorted({**self.vlans, vlan.vid: vlan}))

    def without_vlans(self, vids: Iterable[int]) -> Config:
        """Without the VLANs *vids*. Interfaces that name them keep doing so, and carry nothing."""
        gone = set(vids)
        return replace(self, vlans={vid: vlan for vid, vlan in self.vlans.items() if vid not in gone})

    def with_interface(self, interface: Ethernet | VlanInterface | Management) -> Config:
        """With *interface* added or replaced."""
        match interface:
            case Ethernet():
                return replace(self, ethernets={**self.ethernets, interface.name: interface})
            case VlanInterface():
                return replace(self, svis=_sorted({**self.svis, interface.vid: interface}))
            case Management():
                return replace(self, managements={**self.managements, interface.name: interface})

    def without_svis(self, vids: Iterable[int]) -> Config:
        """Without the VLAN interfaces *vids*."""
        gone = set(vids)
        return replace(self, svis={vid: svi for vid, svi in self.svis.items() if vid not in gone})


_V = TypeVar("_V", Vlan, VlanInterface)


def _sorted(entries: dict[int, _V]) -> dict[int, _V]:
    return {key: entries[key] for key in sorted(entries)}


def factory(ports: Iterable[str], management: str) -> Config:
    """The configuration of a switch out of the box: every port enabled in the default VLAN, as on EOS."""
    names = sorted(ports, key=interface_order)
    return Config(
        ethernets={name: Ethernet(name) for name in names},
        managements={management: Management(management)},
    )


def interface_order(name: str) -> tuple[int, ...]:
    """Sort key of an interface: its numbers, so that Ethernet10 follows Ethernet9."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def short_name(name: str) -> str:
    """``Et1`` for ``Ethernet1``, as prompts and tables show it."""
    for full, short in (("Ethernet", "Et"), ("Vlan", "Vl"), ("Management", "Ma")):
        if name.startswith(full):
            return short + name.removeprefix(full)
    return name


def vid_list(vids: Iterable[int]) -> str:
    """``100-102,200``; ``none`` for no VLAN."""
    runs: list[list[int]] = []
    for vid in sorted(set(vids)):
        if runs and runs[-1][-1] == vid - 1:
            runs[-1].append(vid)
        else:
            runs.append([vid])
    return ",".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"
