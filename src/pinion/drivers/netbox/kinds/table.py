"""The table: every kind of NetBox record that Pinion touches, on NetBox 4.6 and 4.7.

NetBox ignores a field or a filter that it does not know, without a word; so every name that we send stands here, and `check_fields` and
`check_filters` refuse any other before it leaves the process. A test compares the table with the server's own OPTIONS.

The order of `KINDS` is the order of creation: whatever a record refers to comes before it. Deletion goes the other way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from pydantic import JsonValue

from pinion.drivers.netbox.kinds.kind import Ends, Field, Kind, Ref, Search, Value, Words
from pinion.drivers.netbox.kinds.values import word
from pinion.drivers.netbox.kinds.writing import (
    always,
    each,
    found_by,
    host,
    interfaces,
    key,
    network,
    refers,
    refers_to_all,
    stated,
)  # fmt: skip
from pinion.drivers.netbox.wanted.records import DeviceRecord, SiteRecords, VlanRecord

#: Releases of NetBox whose behaviour this driver knows (major, minor).
SUPPORTED = ((4, 6), (4, 7))


def slugify(name: str) -> str:
    """A slug of *name*: lower case, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _columns(names: str) -> tuple[Field, ...]:
    """Fields of what no site file states."""
    return tuple(always(name, None) for name in names.split())


TAGS = Kind("tag", "extras/tags", _columns("name slug color description"))
CUSTOM_FIELDS = Kind(
    "custom field", "extras/custom-fields",
    _columns("name label type object_types description filter_logic ui_visible ui_editable required group_name is_cloneable"),
    searches=(found_by("name"),),
)  # fmt: skip

# --- site -------------------------------------------------------------------------------------------------------------------

_in_service = always("status", "active", drift="has status {}")


def _catalogue(name: str, path: str, listed: str, observed: str = "", *, serial: bool = False, model: str = "") -> Kind:
    """A kind that has nothing but a slug and a name, and that sites share."""
    stem = name.lower().replace(" ", "-")
    return Kind(
        name, path, (stated("slug"), stated("name")), unit="site", listed=listed, parts=each(listed, _of_site),
        mark=f"{{site}}/site/{stem}/{{slug}}", label=f"{name} {{slug}}", place=f"{listed}[{{slug}}]", noun=f"{name} {{slug}}",
        observed=tuple(observed.split()), model=model, shared=True, serial=serial,
    )  # fmt: skip


def _of_site(unit: SiteRecords) -> Words:
    return {"site": unit.site}


def _site(words: Words) -> Value:
    site: str = words["site"]
    return site


def _region(unit: SiteRecords) -> Iterator[Words]:
    if unit.region:
        yield {"site": unit.site, "slug": unit.region, "name": unit.region}


def _maker(unit: SiteRecords) -> Iterator[Words]:
    for name in dict.fromkeys(one.manufacturer for one in unit.device_types):
        yield {"site": unit.site, "slug": slugify(name), "name": name}


def _device_types(unit: SiteRecords) -> Iterator[Words]:
    for one in unit.device_types:
        yield {"site": unit.site, **dict(one), "manufacturer": slugify(one.manufacturer)}


def _name_of(value: JsonValue) -> JsonValue:
    return value.get("name") if isinstance(value, dict) else None


REGION = Kind(
    "region", "dcim/regions", (stated("slug"), stated("name")), unit="site", parts=_region,
    mark="{site}/site/region/{slug}", label="region {slug}", place="region",
    observed=("site_count", "prefix_count"), shared=True, serial=True,
)  # fmt: skip
SITE = Kind(
    "site", "dcim/sites",
    (stated("slug", "site"), stated("name"), refers("region", REGION, "region", shown=True), _in_service, stated("description")),
    unit="site", parts=lambda unit: (dict(unit),), mark="{site}/site", label="site {site}", noun="site", named_by="site",
)  # fmt: skip
MANUFACTURER = Kind(
    "manufacturer", "dcim/manufacturers", (stated("slug"), stated("name")), unit="site", parts=_maker,
    mark="{site}/site/manufacturer/{slug}", label="manufacturer {slug}", place="device_types[{slug}].manufacturer",
    observed=("devicetype_count", "platform_count", "inventoryitem_count"), shared=True,
)  # fmt: skip
DEVICE_TYPE = Kind(
    "device type", "dcim/device-types",
    (refers("manufacturer", MANUFACTURER, "manufacturer", read=_name_of), stated("model"), stated("slug"), stated("u_height", "units")),
    unit="site", listed="device_types", parts=_device_types, mark="{site}/site/device-type/{manufacturer}/{slug}",
    label="device type {manufacturer}/{slug}", place="device_types[{slug}]", noun="device type {slug}",
    keys=(key("manufacturer", "slug"),), shared=True,
)  # fmt: skip
DEVICE_ROLE = _catalogue("device role", "dcim/device-roles", "device_roles", serial=True)
PLATFORM = _catalogue("platform", "dcim/platforms", "platforms", "device_count virtualmachine_count", serial=True)
VLAN_ROLE = _catalogue("VLAN role", "ipam/roles", "vlan_roles", "prefix_count vlan_count", model="role")
VLAN_GROUP = Kind(
    "VLAN group", "ipam/vlan-groups",
    (Field("slug", _site), Field("name", _site), always("scope_type", "dcim.site"), refers("scope_id", SITE, "site")),
    unit="site", parts=lambda unit: (_of_site(unit),), mark="{site}/site/vlan-group", label="VLAN group {site}", named_by="site",
    keys=(key("slug", "scope_type", "scope_id"),),
)  # fmt: skip
RACK = Kind(
    "rack", "dcim/racks",
    (stated("name"), refers("site", SITE, "site"), _in_service, stated("u_height", "units"), stated("description")),
    unit="site", listed="racks", parts=each("racks", _of_site), mark="{site}/site/rack/{name}", label="rack {name}",
    place="racks[{name}]", noun="rack {name}", named_by="name", keys=(key("site", "name"),),
    searches=(found_by("name", within=("site_id", "site")),),
)  # fmt: skip

# --- VLAN -------------------------------------------------------------------------------------------------------------------


def _of_vlan(unit: VlanRecord) -> Words:
    return {"site": unit.site, "vlan": unit.name, "role": unit.role}


_role = refers("role", VLAN_ROLE, "role")
_not_in_a_vrf = always("vrf", None)

VLAN = Kind(  # in the site's group, always: without one NetBox accepts it twice
    "VLAN", "ipam/vlans",
    (stated("vid"), stated("name"), refers("group", VLAN_GROUP, "site", drift="is in no VLAN group"), refers("site", SITE, "site"),
     _in_service, refers("role", VLAN_ROLE, "role", shown=True), stated("description")),
    unit="vlan", parts=lambda unit: (dict(unit),), mark="{site}/vlan/{name}", label="VLAN {name} ({site})", noun="vlan", named_by="name",
    keys=(key("group", "name"), key("group", "vid"), key("site", "vid", unless="group")),
    searches=(
        found_by("vid", within=("group_id", "group")), found_by("name", within=("group_id", "group")),
        found_by("vid", within=("site_id", "site")),
    ),
)  # fmt: skip
PREFIX = Kind(
    "prefix", "ipam/prefixes",
    (stated("prefix"), _not_in_a_vrf, _in_service, _role, refers("vlan", VLAN, "vlan", drift="is not in VLAN {} any more"),
     always("scope_type", "dcim.site", drift="has another scope than the site"), refers("scope_id", SITE, "site"), stated("description")),
    unit="vlan", listed="prefixes", parts=each("prefixes", _of_vlan), mark="{site}/vlan/{vlan}/prefix/{prefix}", label="prefix {prefix}",
    place="prefixes[{prefix}]", noun="prefix {prefix}", named_by="prefix", keys=(key("prefix", "vrf"),),
    searches=(found_by("prefix"),), asked_by=("vlan_id",), weak=True,
)  # fmt: skip
IP_RANGE = Kind(  # searched for by its prefix: NetBox lets no two ranges overlap
    "IP range", "ipam/ip-ranges",
    (stated("start_address", "start"), stated("end_address", "end"), _not_in_a_vrf, _in_service, _role, stated("description")),
    unit="vlan", listed="ranges", parts=each("ranges", _of_vlan), mark="{site}/vlan/{vlan}/range/{name}",
    label="IP range {name} ({start}-{end})", place="ranges[{name}]", noun="range {name}", named_by="name",
    keys=(key("start_address", "end_address", "vrf"),), searches=(Search("parent", "start_address", values=network),),
    asked_by=("start_address",), weak=True,
)  # fmt: skip

# --- device -----------------------------------------------------------------------------------------------------------------


def _primary(version: int) -> Field:
    """The primary address of one family."""

    def ref(words: Words) -> Ref | None:
        address = words["primary_address"]
        is_it = address and ipaddress.ip_interface(address).version == version
        return IP_ADDRESS.ref({**words, "address": address}) if is_it else None

    return Field(f"primary_ip{version}", ref, "primary_address", "primary_address", late=True)


def _interfaces(unit: DeviceRecord) -> Iterator[Words]:
    for one in unit.interfaces:
        yield {"site": unit.site, "device": unit.name, "interface": one.name, **dict(one)}


def _macs(unit: DeviceRecord) -> Iterator[Words]:
    return (words for words in _interfaces(unit) if words["mac"])


def _addresses(unit: DeviceRecord) -> Iterator[Words]:
    return ({**words, "address": one} for words in _interfaces(unit) for one in words["addresses"])


def _cables(unit: DeviceRecord) -> Iterator[Words]:
    for words in _interfaces(unit):
        if far := words["cable"]:
            yield {**words, "far_device": far.device, "far_interface": far.interface}


def _primary_mac(words: Words) -> Value:
    return MAC_ADDRESS.ref(words) if words["mac"] else None


def _mac_word(value: JsonValue) -> JsonValue:
    return (value.get("mac_address") or value.get("display")) if isinstance(value, dict) else None


def _end(name: str, device: str, interface: str) -> Field:
    return Field(
        name, lambda words: Ends(INTERFACE.ref({**words, "device": words[device], "name": words[interface]})), ""
    )


_MODES = {"access": "access", "tagged": "trunk", "tagged-all": "trunk", "q-in-q": "trunk"}
_of_interface = always("assigned_object_type", "dcim.interface")

DEVICE = Kind(
    "device", "dcim/devices",
    (stated("name"), refers("site", SITE, "site"), refers("rack", RACK, "rack", shown=True), stated("position"),
     Field("face", lambda words: "front" if words["position"] else None), refers("role", DEVICE_ROLE, "role", shown=True),
     refers("device_type", DEVICE_TYPE, "device_type", shown=True), refers("platform", PLATFORM, "platform", shown=True),
     stated("status"), stated("serial"), stated("description"), _primary(4), _primary(6)),
    unit="device", parts=lambda unit: ({**dict(unit), "device": unit.name},), mark="{site}/device/{name}", label="device {name} ({site})",
    noun="device", named_by="name",
    keys=(key("site", "name", fold=lambda name: str(name).casefold()),),  # per site and tenant
    searches=(found_by("name", within=("site_id", "site")),),
)  # fmt: skip
INTERFACE = Kind(
    "interface", "dcim/interfaces",
    (refers("device", DEVICE, "device"), stated("name"), stated("type"), stated("enabled"), stated("mgmt_only", "management_only"),
     stated("mtu"), stated("mode", choices={"access": "access", "trunk": "tagged"}, read=lambda mode: _MODES.get(str(word(mode)))),
     refers("untagged_vlan", VLAN, "untagged_vlan", shown=True), refers_to_all("tagged_vlans", VLAN, "tagged_vlans"), stated("description"),
     Field("primary_mac_address", _primary_mac, "mac", "mac", _mac_word, late=True, optional=True)),
    unit="device", listed="interfaces", parts=_interfaces, mark="{site}/device/{device}/interface/{name}",
    label="interface {name} of {device}", place="interfaces[{name}]", noun="interface {name}", named_by="name",
    keys=(key("device", "name"),), searches=(found_by("device_id", "device"),),
    observed=("mac_address", "mac_addresses", "cable"), inside=True,
)  # fmt: skip
MAC_ADDRESS = Kind(
    "MAC address", "dcim/mac-addresses",
    (stated("mac_address", "mac"), _of_interface, refers("assigned_object_id", INTERFACE, "interface")),
    unit="device", parts=_macs, mark="{site}/device/{device}/mac/{interface}", label="MAC address {mac}",
    place="interfaces[{interface}]", gone="interfaces[{interface}].mac", named_by="mac",
    keys=(key("mac_address", "assigned_object_id"),),
    searches=(found_by("interface_id", "assigned_object_id"),), inside=True,
)  # fmt: skip
IP_ADDRESS = Kind(
    "IP address", "ipam/ip-addresses",
    (stated("address", shown=""), _not_in_a_vrf, _in_service, _of_interface,
     refers("assigned_object_id", INTERFACE, "interface", shown="", drift="is on no interface of {} any more")),
    unit="device", parts=_addresses, mark="{site}/device/{device}/address/{address}", label="address {address}",
    place="interfaces[{interface}].addresses[{address}]", noun="address {address}", named_by="address",
    keys=(key("vrf", "address", fold=host),),  # whatever the mask
    searches=(Search("address", "address", values=lambda address: (host(address),)),),
    asked_by=("device_id",), observed=("assigned_object",), inside=True,
)  # fmt: skip
CABLE = Kind(
    "cable", "dcim/cables",
    (always("status", "connected", drift="has status {}"), _end("a_terminations", "device", "interface"),
     _end("b_terminations", "far_device", "far_interface")),
    unit="device", parts=_cables, mark="{site}/device/{device}/cable/{interface}",
    label="cable {device} {interface} to {far_device} {far_interface}", place="interfaces[{interface}].cable", noun="cable {interface}",
    keys=(), joins=("a_terminations", "b_terminations"),
    searches=(Search("interface_id", "a_terminations", values=interfaces), Search("interface_id", "b_terminations", values=interfaces)),
    asked_by=("device_id",), inside=True,
)  # fmt: skip

#: Every kind, in the order of creation.
KINDS = (
    TAGS, CUSTOM_FIELDS, REGION, SITE, MANUFACTURER, DEVICE_TYPE, DEVICE_ROLE, PLATFORM, VLAN_ROLE, VLAN_GROUP, RACK, VLAN,
    PREFIX, IP_RANGE, DEVICE, INTERFACE, MAC_ADDRESS, IP_ADDRESS, CABLE,
)  # fmt: skip

MARKED_KINDS = tuple(kind for kind in KINDS if kind.marked)
#: Kinds that sites share: used as found, removed only when nothing uses them (their counters are read for that, never compared).
CATALOGUE = frozenset(kind for kind in KINDS if kind.shared)
#: Kinds of which each unit consists.
KINDS_OF_UNIT = {unit: tuple(kind for kind in KINDS if kind.unit == unit) for unit in ("site", "vlan", "device")}

#: Fields that NetBox wants changed together: one alone is refused, or quietly means something else.
TOGETHER = (
    ("scope_type", "scope_id"),
    ("assigned_object_type", "assigned_object_id"),
    ("mode", "untagged_vlan", "tagged_vlans"),
    ("rack", "position", "face"),
)
