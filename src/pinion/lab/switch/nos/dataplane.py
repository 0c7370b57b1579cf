"""What a configuration means on the wire, and the Protocol of whatever makes it so. `MemoryDataPlane` keeps it in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from .config import DEFAULT_VLAN, Config, interface_order


class DataPlaneError(Exception):
    """The data plane could not be made to hold what it should: the reason, in one line."""


class Tagging(StrEnum):
    """How a port treats IEEE 802.1Q tags."""

    NONE = "none"  #: the port carries nothing: it belongs to no VLAN that exists
    ACCESS = "access"  #: one VLAN, untagged
    TRUNK = "trunk"  #: tagged VLANs only
    NATIVE = "native-untagged"  #: tagged VLANs, and *tag* untagged


@dataclass(frozen=True, order=True)
class PortPlane:
    """A front port: *up* is its link; *tag* the untagged VLAN, *trunks* the tagged ones; *mtu* octets, None for the cable's own."""

    name: str
    up: bool
    tagging: Tagging
    tag: int | None = None
    trunks: tuple[int, ...] = ()
    mtu: int | None = None


@dataclass(frozen=True, order=True)
class SviPlane:
    """A routed VLAN interface. *mac* None is any address of the data plane's choice."""

    vid: int
    up: bool
    mtu: int
    addresses: tuple[str, ...]
    mac: str | None = None

    @property
    def name(self) -> str:
        """``Vlan101``."""
        return f"Vlan{self.vid}"


@dataclass(frozen=True, order=True)
class ManagementPlane:
    """The out-of-band interface: never forwards. Empty *addresses* mean that nothing is configured: what it has is left."""

    name: str
    up: bool
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class SshRule:
    """One rule of who may open SSH to the switch, whichever of its addresses: the first that fits decides. *source* None is everybody."""

    ipv6: bool
    permit: bool
    source: str | None


@dataclass(frozen=True)
class Desired:
    """All that the data plane should hold. Where *ssh_rules* say nothing of a family, everybody may open SSH over it."""

    ports: tuple[PortPlane, ...] = ()
    svis: tuple[SviPlane, ...] = ()
    managements: tuple[ManagementPlane, ...] = ()
    ipv4_forwarding: bool = False
    ipv6_forwarding: bool = False
    ssh_rules: tuple[SshRule, ...] = ()


@dataclass(frozen=True, order=True)
class MacEntry:
    """A learned MAC address; *age* in seconds since it was last seen."""

    vid: int
    mac: str
    port: str
    age: int


class DataPlane(Protocol):
    """Something that forwards frames."""

    def apply(self, desired: Desired) -> None:
        """Hold *desired*. Does nothing where that is so already. `DataPlaneError` when it can't."""

    def observe(self) -> Desired:
        """What is held: equal to what was last applied, while nobody interferes. A port that is not plugged in is left out."""

    def carriers(self) -> dict[str, bool]:
        """Interfaces that are there, and whether each has a link."""

    def mac_table(self) -> list[MacEntry]:
        """The learned MAC addresses."""

    def plugged_in(self) -> frozenset[tuple[int, str]]:
        """Index and name of every network interface there is: when this changes, `apply` has something to do. Quick."""


def desired(config: Config) -> Desired:
    """What *config* means."""
    svis = []
    for svi in config.svis.values():
        shared = any(address.virtual for address in svi.addresses)
        svis.append(
            SviPlane(
                vid=svi.vid,
                up=not svi.shutdown and config.carries(svi.vid),
                mtu=svi.mtu,
                addresses=tuple(sorted(address.text for address in svi.addresses)),
                mac=config.virtual_router_mac if shared else None,
            )
        )
    return Desired(
        ports=tuple(_port(config, name) for name in sorted(config.ethernets, key=interface_order)),
        svis=tuple(svis),
        managements=tuple(
            ManagementPlane(
                management.name,
                not management.shutdown,
                tuple(sorted(address.text for address in management.addresses)),
            )
            for management in config.managements.values()
        ),
        ipv4_forwarding=config.ip_routing,
        ipv6_forwarding=config.ipv6_routing,
        ssh_rules=tuple(rule for ipv6 in (False, True) for rule in _ssh_rules(config, ipv6)),
    )


def _ssh_rules(config: Config, ipv6: bool) -> tuple[SshRule, ...]:
    """What the list that SSH asks comes to: whom it does not name it refuses."""
    asked = config.ssh_list(ipv6=ipv6)
    if asked is None:
        return ()
    return (*(SshRule(ipv6, rule.permit, rule.source) for rule in asked.rules), SshRule(ipv6, False, None))


def _port(config: Config, name: str) -> PortPlane:
    port = config.ethernets[name]
    if port.shutdown:
        return PortPlane(name, up=False, tagging=Tagging.NONE, mtu=port.l2_mtu)
    if not port.trunk:
        if not config.carries(port.access_vlan):
            return PortPlane(name, up=True, tagging=Tagging.NONE, mtu=port.l2_mtu)
        return PortPlane(name, up=True, tagging=Tagging.ACCESS, tag=port.access_vlan, mtu=port.l2_mtu)
    existing = {DEFAULT_VLAN, *config.vlans}
    carried = existing if port.allowed is None else existing & port.allowed
    native = port.native_vlan if port.native_vlan in carried else None
    tagged = tuple(sorted(carried - {native}))
    if native is not None and not tagged:
        return PortPlane(name, up=True, tagging=Tagging.ACCESS, tag=native, mtu=port.l2_mtu)
    if native is not None:
        return PortPlane(name, up=True, tagging=Tagging.NATIVE, tag=native, trunks=tagged, mtu=port.l2_mtu)
    return PortPlane(name, up=True, tagging=Tagging.TRUNK if tagged else Tagging.NONE, trunks=tagged, mtu=port.l2_mtu)


class MemoryDataPlane:
    """A data plane that forwards nothing and remembers everything. *plugged* are the front ports with a cable; all by default."""

    def __init__(self, plugged: set[str] | None = None) -> None:
        self.plugged = plugged
        self.held = Desired()
        self.failure: str | None = None
        self.applied = 0

    def apply(self, desired: Desired) -> None:
        """See `DataPlane.apply`. Fails while `failure` is set."""
        if self.failure is not None:
            raise DataPlaneError(self.failure)
        self.applied += 1
        self.held = desired

    def observe(self) -> Desired:
        """See `DataPlane.observe`."""
        ports = tuple(port for port in self.held.ports if self._there(port.name))
        return replace(self.held, ports=ports)

    def carriers(self) -> dict[str, bool]:
        """See `DataPlane.carriers`."""
        links = {port.name: port.up for port in self.held.ports if self._there(port.name)}
        links |= {svi.name: svi.up for svi in self.held.svis}
        return links | {management.name: management.up for management in self.held.managements}

    def mac_table(self) -> list[MacEntry]:
        """See `DataPlane.mac_table`: nothing was ever forwarded, so nothing was learned."""
        return []

    def plugged_in(self) -> frozenset[tuple[int, str]]:
        """See `DataPlane.plugged_in`."""
        return frozenset(enumerate(sorted(self.plugged or ())))

    def _there(self, name: str) -> bool:
        return self.plugged is None or name in self.plugged
