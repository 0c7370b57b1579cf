"""The kinds of NetBox record that Pinion touches: end points, fields, filters and natural keys of NetBox 4.6 and 4.7.

NetBox ignores a field or a filter that it does not know, without a word; so every name that we send stands in this table, and
`check_fields` and `check_filters` refuse any other before it leaves the process. A test compares the table with the server's
own OPTIONS.

The order of `KINDS` is the order of creation: whatever a record refers to comes before it. Deletion goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Releases of NetBox whose behaviour this driver knows (major, minor).
SUPPORTED = ((4, 6), (4, 7))

#: The tag and the custom fields by which Pinion knows its own. `pinion_id` names the object in words of the site
#: (`lab/device/pi-01/interface/eth0`); `pinion_adopted` is true for what was there before and must outlive us.
TAG = "pinion"
MARK = "pinion_id"
ADOPTED = "pinion_adopted"

#: Fields of a read that are not ours to write.
_READ_ONLY = ("id", "url", "display", "display_url", "last_updated")
#: Filters that every end point knows.
_EVERYWHERE = frozenset({"id", "limit", "start", "fields"})


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of record.

    *fields* may be written; *observed* are more that are read; *filters* may be asked for. *marked*: carries tags and custom
    fields. *serial*: parallel creates break it (role trees), so they go in one request at a time. *weak*: the server's
    check for duplicates is no lock, so a create is looked up again afterwards.
    """

    name: str
    path: str
    content_type: str
    fields: tuple[str, ...]
    filters: frozenset[str]
    observed: tuple[str, ...] = ()
    marked: bool = True
    serial: bool = False
    weak: bool = False

    @property
    def reading(self) -> tuple[str, ...]:
        """Names for the `fields` parameter of a read: all that is written or observed, and nothing that costs a count."""
        marks = ("tags", "custom_fields") if self.marked else ()
        return tuple(dict.fromkeys((*_READ_ONLY, *self.fields, *self.observed, *marks)))

    @property
    def writing(self) -> frozenset[str]:
        """Names that the body of a POST or PATCH may hold."""
        marks = ("tags", "add_tags", "remove_tags", "custom_fields") if self.marked else ()
        return frozenset((*self.fields, *marks))

    def __repr__(self) -> str:
        return f"<{self.name}>"


class UnknownNameError(ValueError):
    """A field or filter that this driver has no business sending: NetBox would ignore it in silence."""


def check_fields(kind: Kind, names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for a body key that NetBox does not have on *kind*."""
    if unknown := sorted(set(names) - kind.writing - {"id"}):
        raise UnknownNameError(f"{kind.name}: NetBox has no writable field {', '.join(unknown)}")


def check_filters(kind: Kind, names: Iterable[str]) -> None:
    """Raise `UnknownNameError` for a filter that NetBox would ignore on *kind* (and answer with everything)."""
    known = kind.filters | _EVERYWHERE
    if kind.marked:
        known |= {f"cf_{MARK}", f"cf_{MARK}__isw", "tag"}
    if unknown := sorted(set(names) - known):
        raise UnknownNameError(f"{kind.name}: NetBox would ignore the filter {', '.join(unknown)}")


def _kind(
    name: str, path: str, content_type: str, fields: str, filters: str, observed: str = "",
    *, marked: bool = True, serial: bool = False, weak: bool = False,
) -> Kind:  # fmt: skip
    return Kind(
        name,
        path,
        content_type,
        tuple(fields.split()),
        frozenset(filters.split()),
        tuple(observed.split()),
        marked,
        serial,
        weak,
    )


TAGS = _kind("tag", "extras/tags", "extras.tag", "name slug color description", "slug", marked=False)
CUSTOM_FIELDS = _kind(
    "custom field", "extras/custom-fields", "extras.customfield",
    "name label type object_types description filter_logic ui_visible ui_editable required group_name is_cloneable", "name", marked=False,
)  # fmt: skip
REGION = _kind(
    "region",
    "dcim/regions",
    "dcim.region",
    "name slug parent description",
    "slug",
    "site_count prefix_count",
    serial=True,
)
SITE = _kind("site", "dcim/sites", "dcim.site", "name slug status region description", "slug region_id")
MANUFACTURER = _kind(
    "manufacturer",
    "dcim/manufacturers",
    "dcim.manufacturer",
    "name slug description",
    "slug",
    "devicetype_count platform_count inventoryitem_count",
)
DEVICE_TYPE = _kind(
    "device type",
    "dcim/device-types",
    "dcim.devicetype",
    "manufacturer model slug u_height is_full_depth description",
    "slug manufacturer_id",
)
DEVICE_ROLE = _kind(
    "device role", "dcim/device-roles", "dcim.devicerole", "name slug color vm_role description", "slug", serial=True
)
PLATFORM = _kind(
    "platform",
    "dcim/platforms",
    "dcim.platform",
    "name slug description",
    "slug",
    "device_count virtualmachine_count",
    serial=True,
)
VLAN_ROLE = _kind("VLAN role", "ipam/roles", "ipam.role", "name slug description", "slug", "prefix_count vlan_count")
VLAN_GROUP = _kind(
    "VLAN group",
    "ipam/vlan-groups",
    "ipam.vlangroup",
    "name slug scope_type scope_id description",
    "slug scope_type scope_id",
)
RACK = _kind("rack", "dcim/racks", "dcim.rack", "name site location status u_height description", "name site_id")
VLAN = _kind(
    "VLAN",
    "ipam/vlans",
    "ipam.vlan",
    "vid name group site status role description",
    "vid name group_id site_id role_id",
)
PREFIX = _kind(
    "prefix", "ipam/prefixes", "ipam.prefix", "prefix vrf status role vlan scope_type scope_id is_pool description",
    "prefix vlan_id role_id scope_type scope_id", weak=True,
)  # fmt: skip
IP_RANGE = _kind(
    "IP range", "ipam/ip-ranges", "ipam.iprange", "start_address end_address vrf status role description",
    "start_address end_address parent role_id", weak=True,
)  # fmt: skip
DEVICE = _kind(
    "device", "dcim/devices", "dcim.device",
    "name site location rack position face role device_type platform tenant status serial description primary_ip4 primary_ip6",
    "name site_id rack_id role_id device_type_id platform_id",
)  # fmt: skip
INTERFACE = _kind(
    "interface", "dcim/interfaces", "dcim.interface",
    "device name type enabled mgmt_only mtu mode untagged_vlan tagged_vlans primary_mac_address description",
    "device_id name", "mac_address mac_addresses cable",
)  # fmt: skip
MAC_ADDRESS = _kind(
    "MAC address", "dcim/mac-addresses", "dcim.macaddress", "mac_address assigned_object_type assigned_object_id description",
    "mac_address interface_id",
)  # fmt: skip
IP_ADDRESS = _kind(
    "IP address", "ipam/ip-addresses", "ipam.ipaddress",
    "address vrf status role assigned_object_type assigned_object_id dns_name description",
    "address device_id interface_id", "assigned_object",
)  # fmt: skip
CABLE = _kind(
    "cable",
    "dcim/cables",
    "dcim.cable",
    "type status a_terminations b_terminations label description",
    "device_id interface_id",
)

#: Every kind, in the order of creation.
KINDS = (
    TAGS, CUSTOM_FIELDS, REGION, SITE, MANUFACTURER, DEVICE_TYPE, DEVICE_ROLE, PLATFORM, VLAN_ROLE, VLAN_GROUP, RACK, VLAN,
    PREFIX, IP_RANGE, DEVICE, INTERFACE, MAC_ADDRESS, IP_ADDRESS, CABLE,
)  # fmt: skip

MARKED_KINDS = tuple(kind for kind in KINDS if kind.marked)
#: Kinds that sites share: used as found, removed only when nothing uses them (their counters are read for that, never compared).
CATALOGUE = frozenset({REGION, MANUFACTURER, DEVICE_TYPE, DEVICE_ROLE, PLATFORM, VLAN_ROLE})
#: Records of which each unit consists, by the second word of its mark.
KINDS_OF_UNIT = {
    "site": (REGION, SITE, MANUFACTURER, DEVICE_TYPE, DEVICE_ROLE, PLATFORM, VLAN_ROLE, VLAN_GROUP, RACK),
    "vlan": (VLAN, PREFIX, IP_RANGE),
    "device": (DEVICE, INTERFACE, MAC_ADDRESS, IP_ADDRESS, CABLE),
}


#: Kinds that may hang on what Pinion makes, in NetBox 4.7: they are asked for before anything is deleted. What is asked comes from the
#: server's own schema; this list only says which rights that takes. A test compares it with the schema.
DEPENDENTS = (
    "circuits.circuitgroupassignment", "circuits.circuittermination", "circuits.virtualcircuittermination",
    "dcim.consoleport", "dcim.consoleporttemplate", "dcim.consoleserverport", "dcim.consoleserverporttemplate",
    "dcim.coolingfeed", "dcim.coolingintake", "dcim.coolingintaketemplate", "dcim.coolingoutflow",
    "dcim.coolingoutflowtemplate", "dcim.coolingsource", "dcim.devicebay", "dcim.devicebaytemplate", "dcim.frontport",
    "dcim.frontporttemplate", "dcim.interfacetemplate", "dcim.inventoryitem", "dcim.inventoryitemtemplate", "dcim.location",
    "dcim.module", "dcim.modulebay", "dcim.modulebaytemplate", "dcim.modulebaytype", "dcim.moduletype", "dcim.powerfeed",
    "dcim.poweroutlet", "dcim.poweroutlettemplate", "dcim.powerpanel", "dcim.powerport", "dcim.powerporttemplate",
    "dcim.rackreservation", "dcim.racktype", "dcim.rearport", "dcim.rearporttemplate", "dcim.virtualchassis",
    "dcim.virtualdevicecontext", "extras.imageattachment", "extras.journalentry", "ipam.fhrpgroupassignment",
    "ipam.service", "tenancy.contactassignment", "virtualization.cluster", "virtualization.virtualmachine",
    "vpn.l2vpntermination", "vpn.tunneltermination", "wireless.wirelesslan", "wireless.wirelesslink",
)  # fmt: skip


def permissions() -> list[dict[str, object]]:
    """The least that the driver's NetBox user needs, as NetBox object permissions.

    Tags and custom fields are made once and changed never again, so nobody needs to delete them with this token.
    """
    return [
        {
            "description": "Make, change and remove what a site file declares",
            "object_types": sorted(kind.content_type for kind in MARKED_KINDS),
            "actions": ["view", "add", "change", "delete"],
        },
        {
            "description": "Make the tag and the custom fields that say what is Pinion's",
            "object_types": sorted(kind.content_type for kind in KINDS if not kind.marked),
            "actions": ["view", "add"],
        },
        {
            "description": "See what hangs on an object before it is deleted",
            "object_types": list(DEPENDENTS),
            "actions": ["view"],
        },
    ]
