"""What a switch holds, typed: the declared scope only (VLANs, front ports, gateways, routing, who may open SSH, traffic classes), in a
canonical form.

`wanted` says the same of a `SwitchPlan`; `pinion.drivers.switch.eos_parser` reads it from a switch. Nothing here renders text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_interface
from itertools import groupby
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pinion.drivers.switch.qos import canonical
from pinion.plan.model import PortMode, SwitchPlan, SwitchPort, SwitchQos
from pinion.render.switch import SSH_LIST

#: Layer-3 MTU of an interface that does not state one (EOS User Manual, "mtu").
DEFAULT_MTU = 1500
#: VLAN of a port that states none; it always exists and can't be removed (EOS User Manual, "vlan").
DEFAULT_VLAN = 1

Mode = Literal["access", "trunk", "routed"]


class Held(BaseModel):
    """Base of what a switch holds: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class VlanState(Held):
    """One VLAN. *name* is None when the switch shows its own default name. *other* are configuration lines that Pinion has no word for."""

    vid: int
    name: str | None = None
    other: tuple[str, ...] = ()


class PortState(Held):
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


class SviState(Held):
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


class SshGuard(Held):
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


class SwitchState(Held):
    """The declared scope of one switch.

    *saved*: the start-up configuration holds the same. *unconfirmed*: the configuration session whose commit timer runs; until it is
    confirmed or undone, this state may still go back to what it was.
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


def wanted(plan: SwitchPlan) -> SwitchState:
    """The state of a switch that holds *plan* and nothing else."""
    svis = sorted(plan.svis, key=lambda svi: svi.vid)
    families = {":" in svi.address for svi in svis}
    return SwitchState(
        vlans=tuple(
            sorted((VlanState(vid=vlan.vid, name=vlan.name) for vlan in plan.vlans), key=lambda vlan: vlan.vid)
        ),
        ports=tuple(sorted(map(_wanted_port, plan.ports), key=lambda port: port_order(port.name))),
        svis=tuple(
            SviState(
                vid=vid,
                mtu=members[0].mtu,
                addresses=ordered_addresses(svi.address for svi in members if not svi.virtual),
                virtual_addresses=ordered_addresses(svi.address for svi in members if svi.virtual),
            )
            for vid, members in ((vid, list(group)) for vid, group in groupby(svis, key=lambda svi: svi.vid))
        ),
        ip_routing=False in families,
        ipv6_routing=True in families,
        virtual_router_mac=plan.virtual_router_mac,
        ssh_ipv4=_wanted_guard(plan, ipv6=False),
        ssh_ipv6=_wanted_guard(plan, ipv6=True),
        qos=canonical(plan.qos),
    )


def _wanted_guard(plan: SwitchPlan, *, ipv6: bool) -> SshGuard:
    if not plan.ssh_sources:
        return SshGuard()
    return SshGuard(asked=SSH_LIST, allowed=tuple(source for source in plan.ssh_sources if (":" in source) == ipv6))


def _wanted_port(port: SwitchPort) -> PortState:
    trunk = port.mode is PortMode.TRUNK
    access = port.mode is PortMode.ACCESS and port.access_vlan is not None
    return PortState(
        name=port.name,
        description=port.description,
        enabled=port.enabled,
        mode="trunk" if trunk else "access",
        access_vlan=port.access_vlan if access and port.access_vlan is not None else DEFAULT_VLAN,
        trunk_vlans=tuple(sorted(set(port.trunk_vlans))) if trunk else None,
        mtu=port.mtu,
        qos_profile=port.qos_profile,
    )
