"""What others hang on records, in the in-memory NetBox: kinds that the driver never writes, and what NetBox does with them on a deletion.

Each was seen on a live NetBox 4.7.3; the contract suite hangs the same things on the same objects there. The last two are those of the
plugin that the tests install in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from doubles.netbox_rules import REFERENCES, REQUIRED
from pinion.drivers.netbox.kinds import (
    CABLE,
    CUSTOM_FIELDS,
    IP_ADDRESS,
    KINDS,
    MAC_ADDRESS,
    PREFIX,
    TAGS,
    VLAN_GROUP,
    Kind,
)
from pinion.drivers.netbox.kinds.values import Body
from pinion.drivers.netbox.server.schema import EndPoint, Reference

#: What becomes of a record when what it names is deleted.
Fate = Literal["goes", "prevents", "is blanked"]


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A kind of record. *names*: fields that name an object, with its content type and what becomes of the record.

    *pair*: the stem of such a pair.
    """

    content_type: str
    path: str
    name: str
    names: Mapping[str, tuple[str, Fate]] = field(default_factory=dict)
    pair: str | None = None


def _of_device(model: str, path: str, name: str) -> OtherKind:
    return OtherKind(f"dcim.{model}", f"dcim/{path}", name, {"device": ("dcim.device", "goes")})


OTHERS = (
    _of_device("consoleport", "console-ports", "console port"),
    _of_device("powerport", "power-ports", "power port"),
    _of_device("modulebay", "module-bays", "module bay"),
    _of_device("frontport", "front-ports", "front port"),
    _of_device("rearport", "rear-ports", "rear port"),
    OtherKind(
        "dcim.inventoryitem", "dcim/inventory-items", "inventory item", {"device": ("dcim.device", "goes")}, "component"
    ),
    OtherKind(
        "dcim.consoleporttemplate",
        "dcim/console-port-templates",
        "console port template",
        {"device_type": ("dcim.devicetype", "goes")},
    ),
    OtherKind("dcim.location", "dcim/locations", "location", {"site": ("dcim.site", "goes")}),
    OtherKind("dcim.rackreservation", "dcim/rack-reservations", "rack reservation", {"rack": ("dcim.rack", "goes")}),
    OtherKind(
        "dcim.moduletype", "dcim/module-types", "module type", {"manufacturer": ("dcim.manufacturer", "prevents")}
    ),
    OtherKind("ipam.asn", "ipam/asns", "ASN", {"role": ("ipam.role", "is blanked")}),
    OtherKind("wireless.wirelesslan", "wireless/wireless-lans", "wireless LAN", {"vlan": ("ipam.vlan", "prevents")}),
    OtherKind("ipam.service", "ipam/services", "service", pair="parent_object"),
    OtherKind("ipam.fhrpgroupassignment", "ipam/fhrp-group-assignments", "FHRP group assignment", pair="interface"),
    OtherKind("extras.journalentry", "extras/journal-entries", "journal entry", pair="assigned_object"),
    OtherKind("extras.imageattachment", "extras/image-attachments", "image attachment", pair="object"),
    OtherKind("tenancy.contactassignment", "tenancy/contact-assignments", "contact assignment", pair="object"),
    OtherKind("pinion_gauges.gauge", "plugins/gauges/gauges", "gauge", {"device": ("dcim.device", "goes")}),
    OtherKind("pinion_gauges.reading", "plugins/gauges/readings", "reading", pair="measured"),
)

_PAIRS: Mapping[Kind, str] = {
    PREFIX: "scope",
    VLAN_GROUP: "scope",
    IP_ADDRESS: "assigned_object",
    MAC_ADDRESS: "assigned_object",
}


def end_points() -> tuple[EndPoint, ...]:
    """Every list of the NetBox in memory, with the fields that name other records."""
    ours = [
        EndPoint(
            kind.content_type,
            kind.path,
            kind.name,
            tuple(
                Reference(name, (target.content_type,), False, f"{name}_id", name not in REQUIRED[kind])
                for name, target in REFERENCES.get(kind, {}).items()
            )
            + tuple(Reference(stem, (), True, f"{stem}_id", True) for stem in (_PAIRS.get(kind),) if stem),
        )
        for kind in KINDS
        if kind not in (TAGS, CUSTOM_FIELDS, CABLE)
    ]
    others = [
        EndPoint(
            other.content_type,
            other.path,
            other.name,
            tuple(
                Reference(name, (target,), False, f"{name}_id", fate == "is blanked")
                for name, (target, fate) in other.names.items()
            )
            + tuple(Reference(stem, (), True, f"{stem}_id", False) for stem in (other.pair,) if stem),
        )
        for other in OTHERS
    ]
    return tuple(sorted([*ours, *others], key=lambda one: one.content_type))


class Dependents:
    """The records of `OTHERS`. *hidden*: content types that the driver's user may not see."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        self._rows: dict[str, dict[int, Body]] = {other.path: {} for other in OTHERS}
        self._ids = itertools.count(1)

    def hang(self, path: str, body: Body, url: str, now: str) -> Body:
        """Add a record to the list *path*, as another hand would."""
        number = next(self._ids)
        shown = body.get("name") or body.get("description") or body.get("comments") or str(number)
        address = f"{url}/{path}/{number}/"
        row: Body = {
            **body, "id": number, "display": shown, "url": address, "display_url": address, "tags": [],
            "custom_fields": {}, "created": now, "last_updated": now,
        }  # fmt: skip
        self._rows[path][number] = row
        return row

    def make_parts(self, device_type: int, device: int, url: str, now: str) -> None:
        """Make the parts that a device type's templates say, with the device."""
        for template in self.rows("dcim/console-port-templates") or ():
            if template.get("device_type") == device_type:
                self.hang("dcim/console-ports", {"device": device, "name": template["name"]}, url, now)

    def change(self, path: str, number: int, fields: Body, now: str) -> None:
        """Change a record, as another hand would."""
        self._rows[path][number] = {**self._rows[path][number], **fields, "last_updated": now}

    def rows(self, path: str) -> list[Body] | None:
        """The records of a list, by id; None when it is none of these."""
        found = self._rows.get(path)
        return None if found is None else [found[key] for key in sorted(found)]

    def take(self, path: str, number: int) -> None:
        """Delete one."""
        self._rows[path].pop(number, None)

    def preventing(self, content_type: str, number: int) -> int:
        """How many records prevent the deletion of an object."""
        return sum(1 for _, _, fate in self._on(content_type, number) if fate == "prevents")

    def follow(self, content_type: str, number: int) -> None:
        """Do what NetBox does to all that names a deleted object."""
        for path, row, fate in list(self._on(content_type, number)):
            key = row["id"]
            assert isinstance(key, int)
            if fate == "goes":
                self._rows[path].pop(key, None)
            elif fate == "is blanked":
                cleared: Sequence[str] = [name for other in OTHERS if other.path == path for name in other.names]
                self._rows[path][key] = {**row, **dict.fromkeys(cleared)}

    def _on(self, content_type: str, number: int) -> Iterator[tuple[str, Body, Fate]]:
        for other in OTHERS:
            for row in self._rows[other.path].values():
                for name, (target, fate) in other.names.items():
                    if target == content_type and row.get(name) == number:
                        yield other.path, row, fate
                if other.pair and (row.get(f"{other.pair}_type"), row.get(f"{other.pair}_id")) == (
                    content_type,
                    number,
                ):
                    yield other.path, row, "goes"

    def served(self, row: Body, path: str) -> Body:
        """A record as the server shows it: what it names as an object."""
        other = next(one for one in OTHERS if one.path == path)
        nested: dict[str, JsonValue] = {name: {"id": row[name]} for name in other.names if row.get(name) is not None}
        return {**row, **nested}
