"""The NetBox driver: sites, VLANs and devices as units, on NetBox 4.6 and 4.7. The only user of pynetbox.

Read it the way the data takes: `kinds.table` (what a record is to us), `wanted` (what the plan asks for), `server` (NetBox's API),
`found` (what NetBox has), `compared` (which record is the wanted one, and what differs), `written` (what is made, changed and removed;
`written.run` is the one algorithm), `driver` (many callers, one run), `results` and `errors` (what these get).
"""

from __future__ import annotations

from pinion.drivers.netbox.driver import NetBoxDriver, UnitDriver
from pinion.drivers.netbox.errors import (
    DeniedError,
    ExistsError,
    MissingError,
    NetBoxError,
    RefusedError,
    StaleError,
    UnreachableError,
)
from pinion.drivers.netbox.results import (
    Applied,
    Change,
    Deleted,
    Left,
    Observed,
    ServerFacts,
    UnitDiff,
)
from pinion.drivers.netbox.wanted.from_plan import device_record, site_records, vlan_record
from pinion.drivers.netbox.wanted.records import (
    CableTo,
    DeviceRecord,
    DeviceType,
    Interface,
    IpRange,
    Named,
    Prefix,
    Rack,
    SiteRecords,
    VlanRecord,
)

__all__ = [
    "Applied", "CableTo", "Change", "Deleted", "DeniedError", "DeviceRecord", "DeviceType", "ExistsError",
    "Interface", "IpRange", "Left", "MissingError", "Named", "NetBoxDriver", "NetBoxError", "Observed", "Prefix", "Rack",
    "RefusedError", "ServerFacts", "SiteRecords", "StaleError", "UnitDiff", "UnitDriver", "UnreachableError", "VlanRecord",
    "device_record", "site_records", "vlan_record",
]  # fmt: skip
