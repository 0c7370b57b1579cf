"""The kinds of NetBox record that Pinion touches, each one entry of `table`."""

from __future__ import annotations

from pinion.drivers.netbox.kinds.kind import (
    Ends,
    Field,
    Key,
    Kind,
    Ref,
    UnknownNameError,
    Value,
    Want,
    Words,
    check_fields,
    check_filters,
)  # fmt: skip
from pinion.drivers.netbox.kinds.marks import ADOPTED, MARK, TAG
from pinion.drivers.netbox.kinds.rights import DEPENDENTS, permissions
from pinion.drivers.netbox.kinds.table import (
    CABLE,
    CATALOGUE,
    CUSTOM_FIELDS,
    DEVICE,
    DEVICE_ROLE,
    DEVICE_TYPE,
    INTERFACE,
    IP_ADDRESS,
    IP_RANGE,
    KINDS,
    KINDS_OF_UNIT,
    MAC_ADDRESS,
    MANUFACTURER,
    MARKED_KINDS,
    PLATFORM,
    PREFIX,
    RACK,
    REGION,
    SITE,
    SUPPORTED,
    TAGS,
    TOGETHER,
    VLAN,
    VLAN_GROUP,
    VLAN_ROLE,
    slugify,
)  # fmt: skip

__all__ = [
    "ADOPTED", "CABLE", "CATALOGUE", "CUSTOM_FIELDS", "DEPENDENTS", "DEVICE", "DEVICE_ROLE", "DEVICE_TYPE", "INTERFACE", "IP_ADDRESS",
    "IP_RANGE", "KINDS", "KINDS_OF_UNIT", "MAC_ADDRESS", "MANUFACTURER", "MARK", "MARKED_KINDS", "PLATFORM", "PREFIX", "RACK",
    "REGION", "SITE", "SUPPORTED", "TAG", "TAGS", "TOGETHER", "VLAN", "VLAN_GROUP", "VLAN_ROLE", "Ends", "Field", "Key", "Kind", "Ref",
    "UnknownNameError", "Value", "Want", "Words", "check_fields", "check_filters", "permissions", "slugify",
]  # fmt: skip
