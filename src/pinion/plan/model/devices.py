"""Devices, their interfaces and cables, racks and platforms."""

from __future__ import annotations

from enum import StrEnum

from pinion.plan.model.base import Planned
from pinion.site.catalog import Evidence


class DeviceKind(StrEnum):
    """What a device is to the site. Also the slug of its NetBox device role."""

    SWITCH = "switch"
    MANAGEMENT_HOST = "management-host"
    PI = "pi"
    GPU_SERVER = "gpu-server"


class DeviceStatus(StrEnum):
    """Whether a device serves the site. NetBox's own words for it."""

    ACTIVE = "active"
    DECOMMISSIONING = "decommissioning"  #: stated as leaving: recorded, its ports shut, and nothing else


class PortMode(StrEnum):
    """IEEE 802.1Q mode of a port."""

    ACCESS = "access"
    TRUNK = "trunk"


class CableEnd(Planned):
    """The far end of a cable."""

    device: str
    interface: str


class InterfacePlan(Planned):
    """One interface of a device.

    *type* is NetBox's slug. *addresses* carry their mask (``10.0.0.1/24``). *untagged_vlan* and *tagged_vlans* are VLAN names.
    *cable* is set on both ends; the end with *owns_cable* is the one whose device creates it.
    """

    name: str
    type: str
    enabled: bool = True
    management_only: bool = False
    mac: str | None = None
    mtu: int | None = None
    description: str = ""
    mode: PortMode | None = None
    untagged_vlan: str | None = None
    tagged_vlans: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    cable: CableEnd | None = None
    owns_cable: bool = False


class DeviceTypePlan(Planned):
    """One model of hardware that the site uses. *slug* is NetBox's natural key within a manufacturer."""

    manufacturer: str
    model: str
    slug: str
    units: int


class DevicePlan(Planned):
    """One device with its interfaces, addresses and cables as one unit.

    *position* is the lowest rack unit that it fills, None when it is not mounted by unit. *primary_address* carries its mask.
    """

    name: str
    kind: DeviceKind
    device_type: str
    platform: str
    rack: str
    position: int | None
    serial: str
    description: str
    interfaces: tuple[InterfacePlan, ...]
    primary_address: str | None
    lab: bool
    status: DeviceStatus = DeviceStatus.ACTIVE
    origin: str

    @property
    def leaving(self) -> bool:
        """Whether the site file states it under `decommissioned`."""
        return self.status is DeviceStatus.DECOMMISSIONING

    def interface(self, name: str) -> InterfacePlan:
        """The interface called *name*; `KeyError` when there is none."""
        for interface in self.interfaces:
            if interface.name == name:
                return interface
        raise KeyError(name)


class RackPlan(Planned):
    """One rack and its height in units."""

    name: str
    units: int
    description: str
    origin: str


class PlatformPlan(Planned):
    """An operating system that some device runs. *slug* is the catalogue's key."""

    slug: str
    name: str
    evidence: Evidence
