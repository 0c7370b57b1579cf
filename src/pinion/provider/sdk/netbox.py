"""`pinion:netbox:*`: a site's records, a VLAN, a device, each stated by the driver's own record (`site_records(plan)` and its like)."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from pinion.drivers.netbox.wanted.records import DeviceRecord, SiteRecords, VlanRecord
from pinion.drivers.netbox.wanted.units import IDENTITIES
from pinion.provider.netbox import OUTPUTS
from pinion.provider.sdk.provider import with_provider
from pinion.provider.shape import ORIGIN, Model, Shape

_SITE = Shape(SiteRecords, IDENTITIES)
_VLAN = Shape(VlanRecord, IDENTITIES)
_DEVICE = Shape(DeviceRecord, IDENTITIES)


class Unit(pulumi.CustomResource):
    """A unit of NetBox records. *url* is its page, *owner* ``created``, ``adopted`` or ``foreign``, *netbox_ids* ids by name."""

    url: pulumi.Output[str]
    owner: pulumi.Output[str]
    netbox_ids: pulumi.Output[Mapping[str, int]]


def _inputs(shape: Shape[Model], record: Model, origin: str | None) -> dict[str, object]:
    outputs: dict[str, object] = dict.fromkeys(OUTPUTS)
    return {**shape.properties(record), **({ORIGIN: origin} if origin else {}), **outputs}


class Site(Unit):
    """A site with its racks, VLAN group and the catalogue objects that its devices and VLANs refer to."""

    def __init__(
        self, name: str, record: SiteRecords, *, origin: str | None = None, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("pinion:netbox:Site", name, _inputs(_SITE, record, origin), with_provider(opts))


class Vlan(Unit):
    """A VLAN with its prefixes and ranges."""

    def __init__(
        self, name: str, record: VlanRecord, *, origin: str | None = None, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("pinion:netbox:Vlan", name, _inputs(_VLAN, record, origin), with_provider(opts))


class Device(Unit):
    """A device with its interfaces, addresses and cables."""

    def __init__(
        self, name: str, record: DeviceRecord, *, origin: str | None = None, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("pinion:netbox:Device", name, _inputs(_DEVICE, record, origin), with_provider(opts))
