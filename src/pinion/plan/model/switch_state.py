"""What a switch holds within our scope: what the plan wants, what a parser reads from a switch, and what a writer makes text of.

The scope is VLANs, front ports, gateways, routing, who may open SSH, and traffic classes. Nothing here knows a switch system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_interface
from itertools import groupby
from operator import itemgetter
from typing import Literal

from pinion.plan.model.base import Planned
from pinion.plan.model.qos import SwitchQos

#: Layer-3 MTU of a gateway that does not state one, octets (EOS User Manual, "mtu"; Cumulus Linux, "ip mtu" of an SVI).
DEFAULT_MTU = 1500
#: VLAN of a port that states none (IEEE 802.1Q, default PVID); it can't be removed.
DEFAULT_VLAN = 1
#: Our access list of who may open SSH.
SSH_LIST = "pinion-ssh"

Mode = Literal["access", "trunk", "routed"]


class VlanState(Planned):
    """One VLAN. *name* is None when the switch shows its own default name. *other* are statements that Pinion has no word for."""

    vid: int
    name: str | None = None
    other: tuple[str, ...] = ()


class PortState(Planned):
    """One front port. *trunk_vlans* None means every VLAN; *mtu* None the platform's default (octets, layer 2).

    *qos_profile* names the QoS profile that it takes; None: it does with traffic classes what the switch does unless told.
    """

    name: str
    description: str = ""
    enabled: bool = True
    mode: Mode = "access"
    access_vlan: int = DEFAULT_VLAN
    native_vlan: int = DEFAULT_VLAN
    trunk_vlans: tuple[int, ...] | None = None
    mtu: int | None = None
    qos_profile: str | None = None
    other: tuple[str, ...] = ()


class SviState(Planned):
    """One routed VLAN interface. Addresses carry their mask: the primary IPv4 one first, further IPv4 ones sorted, then IPv6 sorted."""

    vid: int
    description: str = ""
    enabled: bool = True
    mtu: int = DEFAULT_MTU
    addresses: tuple[str, ...] = ()
    virtual_addresses: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """All its addresses, for a person."""
        return ", ".join((*self.addresses, *self.virtual_addresses))


class SshGuard(Planned):
    """Who may open SSH over one family, to any address of the switch.

    *asked* names the access list that SSH asks, None for none. *allowed* are the prefixes that our own list lets in, in its order; None
    when there is no such list. *other* are its lines that Pinion has no word for.
    """

    asked: str | None = None
    allowed: tuple[str, ...] | None = None
    other: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        """True when SSH asks our list."""
        return self.asked == SSH_LIST


class SwitchState(Planned):
    """The declared scope of one switch.

    *saved*: the start-up configuration holds the same. *unconfirmed*: the change whose commit timer runs; until it is confirmed or undone,
    this state may still go back to what it was.
    """

    vlans: tuple[VlanState, ...] = ()
    ports: tuple[PortState, ...] = ()
    svis: tuple[SviState, ...] = ()
    ip_routing: bool = False
    ipv6_routing: bool = False
    virtual_router_mac: str | None = None
    ssh_ipv4: SshGuard = SshGuard()
    ssh_ipv6: SshGuard = SshGuard()
    qos: SwitchQos = SwitchQos()
    saved: bool = True
    unconfirmed: str | None = None

    def vlan(self, vid: int) -> VlanState | None:
        """The VLAN *vid*, None when the switch lacks it."""
        return next((vlan for vlan in self.vlans if vlan.vid == vid), None)

    def port(self, name: str) -> PortState | None:
        """The port *name*, None when the switch lacks it."""
        return next((port for port in self.ports if port.name == name), None)

    def svi(self, vid: int) -> SviState | None:
        """The gateway of VLAN *vid*, None when the switch lacks it."""
        return next((svi for svi in self.svis if svi.vid == vid), None)


def port_order(name: str) -> tuple[int, ...]:
    """Sort key of a port: its numbers, so that Ethernet10 follows Ethernet9."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def ordered_addresses(addresses: Iterable[str]) -> tuple[str, ...]:
    """Addresses in canonical text and order. The first IPv4 address given is the primary one and stays first."""
    interfaces = [ip_interface(address) for address in addresses]
    ipv4 = [interface for interface in interfaces if interface.version == 4]
    ipv6 = [interface for interface in interfaces if interface.version == 6]
    return tuple(str(interface) for interface in (*ipv4[:1], *sorted(ipv4[1:]), *sorted(ipv6)))


def vid_ranges(vids: Iterable[int]) -> str:
    """VLAN identifiers as switch systems write a list of them: sorted, runs joined (``100-102,200``); ``none`` for no VLAN."""
    ordered = sorted(set(vids))
    runs = []
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        run = list(map(itemgetter(1), group))
        runs.append(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(runs) or "none"
