"""What a caller wants NetBox to hold, in words of the site file: three units, each made and removed as a whole.

Invariants:

* Frozen, unknown keys refused, values in NetBox's canonical form (IPv6 compressed, MAC upper case, text trimmed), so that equal
  wishes compare equal.
* A unit's `key` is its identity (`lab`, `lab/edge-inference`, `lab/pi-01`).
* References are natural keys, never NetBox ids.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _trim(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _prefix(text: str) -> str:
    return str(ipaddress.ip_network(text))


def _address(text: str) -> str:
    return str(ipaddress.ip_interface(text))


def _mac(text: str) -> str:
    digits = re.sub(r"[^0-9A-Fa-f]", "", text)
    if len(digits) != 12:
        raise ValueError("a MAC address has twelve hexadecimal digits")
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2)).upper()


# Lengths are those of NetBox's own columns.
Slug = Annotated[str, Field(pattern=r"^[-a-zA-Z0-9_]+$", max_length=100)]
Name = Annotated[str, BeforeValidator(_trim), Field(min_length=1, max_length=64)]
LongName = Annotated[str, BeforeValidator(_trim), Field(min_length=1, max_length=100)]
Text = Annotated[str, BeforeValidator(_trim), Field(max_length=200)]
PrefixText = Annotated[str, AfterValidator(_prefix)]
AddressText = Annotated[str, AfterValidator(_address)]
MacText = Annotated[str, AfterValidator(_mac)]
#: Slashes part the words of an identity.
Word = Annotated[str, BeforeValidator(_trim), Field(min_length=1, max_length=64, pattern=r"^[^/]+$")]


class Desired(BaseModel):
    """Base of every wish."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Named(Desired):
    """A catalogue object with nothing but a slug (its natural key) and a name."""

    slug: Slug
    name: LongName


class Rack(Desired):
    """A rack and its height in units."""

    name: Name
    units: int = Field(ge=1, le=100)
    description: Text = ""


class DeviceType(Desired):
    """A model of hardware. *manufacturer* is its name; *units* its height in rack units, 0 for what is not mounted by unit."""

    manufacturer: LongName
    model: LongName
    slug: Slug
    units: float = Field(ge=0, le=100, default=1)


class SiteRecords(Desired):
    """A site with its racks and VLAN group, and the catalogue objects that its devices and VLANs refer to. *site* is the slug."""

    site: Slug
    name: LongName
    region: Slug | None = None
    description: Text = ""
    racks: tuple[Rack, ...] = ()
    device_types: tuple[DeviceType, ...] = ()
    device_roles: tuple[Named, ...] = ()
    platforms: tuple[Named, ...] = ()
    vlan_roles: tuple[Named, ...] = ()

    @property
    def key(self) -> str:
        """Identity of the unit."""
        return self.site


class Prefix(Desired):
    """A prefix of a VLAN."""

    prefix: PrefixText
    description: Text = ""


class IpRange(Desired):
    """An inclusive span of addresses, both ends with the mask of their prefix. *name* is its identity within the VLAN."""

    name: Word
    start: AddressText
    end: AddressText
    description: Text = ""


class VlanRecord(Desired):
    """A VLAN of the site's group, with its prefixes and ranges. *role* is a slug."""

    site: Slug
    name: Word
    vid: int = Field(ge=1, le=4094)
    role: Slug | None = None
    description: Text = ""
    prefixes: tuple[Prefix, ...] = ()
    ranges: tuple[IpRange, ...] = ()

    @property
    def key(self) -> str:
        """Identity of the unit."""
        return f"{self.site}/{self.name}"


class CableTo(Desired):
    """The far end of a cable."""

    device: Word
    interface: Name


class Interface(Desired):
    """An interface. *type* is NetBox's slug; *untagged_vlan* and *tagged_vlans* are names of VLANs of the site.

    *mac* None: whatever is recorded stays. *cable* stands on one of the two ends only.
    """

    name: Name
    type: str
    enabled: bool = True
    management_only: bool = False
    mac: MacText | None = None
    mtu: int | None = Field(default=None, ge=1, le=65536)
    description: Text = ""
    mode: Literal["access", "trunk"] | None = None
    untagged_vlan: Word | None = None
    tagged_vlans: tuple[Word, ...] = ()
    addresses: tuple[AddressText, ...] = ()
    cable: CableTo | None = None


class DeviceRecord(Desired):
    """A device with its interfaces, addresses and cables. *role*, *manufacturer*, *device_type*, *platform* are slugs; *rack* a name.

    *position* is the lowest rack unit that it fills. *primary_address* must be one of its interfaces' addresses. *status* is NetBox's
    word; we give two of those that it has.
    """

    site: Slug
    name: Word
    role: Slug
    manufacturer: Slug
    device_type: Slug
    platform: Slug | None = None
    rack: Name | None = None
    position: float | None = None
    status: Annotated[str, Field(pattern=r"^(active|decommissioning)$")] = "active"
    serial: Annotated[str, BeforeValidator(_trim), Field(max_length=50)] = ""
    description: Text = ""
    interfaces: tuple[Interface, ...] = ()
    primary_address: AddressText | None = None

    @property
    def key(self) -> str:
        """Identity of the unit."""
        return f"{self.site}/{self.name}"

    @model_validator(mode="after")
    def _primary_is_ours(self) -> Self:
        held = {address for interface in self.interfaces for address in interface.addresses}
        if self.primary_address is not None and self.primary_address not in held:
            raise ValueError(f"primary_address {self.primary_address} is on none of the interfaces")
        return self


D = TypeVar("D", SiteRecords, VlanRecord, DeviceRecord)
