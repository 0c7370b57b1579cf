"""What a ToR switch must hold."""

from __future__ import annotations

from typing import Literal

from pinion.plan.model.base import Planned
from pinion.plan.model.devices import PortMode
from pinion.plan.model.qos import SwitchQos
from pinion.site.catalog import Evidence


class SwitchVlan(Planned):
    """A VLAN as a switch holds it."""

    vid: int
    name: str


class SwitchPort(Planned):
    """One front port. A port without a peer is shut, and so is that of a node that leaves.

    *access_vlan* and *trunk_vlans* are VLAN identifiers. *qos_profile* names one of the switch's profiles (`SwitchPlan.qos`).
    """

    name: str
    description: str
    enabled: bool
    mode: PortMode | None
    access_vlan: int | None = None
    trunk_vlans: tuple[int, ...] = ()
    mtu: int | None = None
    qos_profile: str | None = None
    origin: str


class Svi(Planned):
    """A routed VLAN interface. *address* carries its mask; *virtual* means that a pair of switches shares it (anycast gateway)."""

    vid: int
    address: str
    virtual: bool
    mtu: int


class SwitchPlan(Planned):
    """What one ToR switch must hold. *management_interface* is never configured by us.

    *management_address* carries its mask; *management_port* is the SSH port. *ssh_sources* are the prefixes that may open SSH to any of its
    addresses, its gateways' too; none: the site does not say, and nothing is held back. *virtual_router_mac* is the MAC address of the
    gateways that it shares, None where it shares none. *qos* is None where the site has no traffic classes. *vlan_names* tells whether its
    system knows names of VLANs.
    """

    name: str
    platform: str
    driver: Literal["eos", "cumulus"]
    model: str
    management_interface: str
    management_address: str
    management_port: int = 22
    vlan_names: bool = True
    vlans: tuple[SwitchVlan, ...]
    ports: tuple[SwitchPort, ...]
    svis: tuple[Svi, ...]
    virtual_router_mac: str | None = None
    qos: SwitchQos | None = None
    ssh_sources: tuple[str, ...] = ()
    evidence: Evidence
    origin: str
