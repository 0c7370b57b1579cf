"""Which device of ours a device of a new name was until now: the same hardware in the same place. Pure over a `World`.

A VLAN is known by its VID. A device has nothing of the kind, so it takes two proofs: a place (a port that a cable leads to, or a rack
unit) and a sign of its own (an address, a MAC address, the serial number), each as far as the site file states any, and no contradiction.
With less, the device counts as new; it then takes over what it needs one by one, and only NetBox's id of the device is another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import CABLE, DEVICE, IP_ADDRESS, MAC_ADDRESS, Kind
from pinion.drivers.netbox.plain import cable_ends, mark_of, plain, plain_record
from pinion.drivers.netbox.store import Record, identity
from pinion.drivers.netbox.units import Item, Unit
from pinion.drivers.netbox.wants import Ends
from pinion.drivers.netbox.world import World

#: Kinds by which a device is recognised.
EVIDENCE: tuple[Kind, ...] = (CABLE, IP_ADDRESS, MAC_ADDRESS)


def same_device(world: World, item: Item, others: Mapping[str, Record]) -> Record | None:
    """The one of *others* (devices of ours by the mark of their unit) that *item* is under a new name; None when none or several are."""
    body = item.body
    places, signs = _wanted(world, item.unit, body)
    found = []
    for mark, record in others.items():
        if any(plain(record.get(name)) != body.get(name) for name in ("device_type", "role")):
            continue
        serial = record.get("serial")
        if serial and body.get("serial") and serial != body["serial"]:
            continue
        its_places, its_signs = _held(world, mark, record)
        if _agree(places, its_places) and _agree(signs, its_signs) and (places or signs):
            found.append(record)
    return found[0] if len(found) == 1 else None


def _agree(wanted: set[Hashable], held: set[Hashable]) -> bool:
    return not wanted or bool(wanted & held)


def _wanted(world: World, unit: Unit, body: Mapping[str, JsonValue]) -> tuple[set[Hashable], set[Hashable]]:
    """Places and signs that a unit states."""
    places: set[Hashable] = set()
    signs: set[Hashable] = set()
    if body.get("position") is not None:
        places.add(("rack", repr(body.get("rack")), repr(body["position"])))
    for want in unit.wants:
        far = want.body.get("b_terminations")
        if want.kind is CABLE and isinstance(far, Ends):
            ports = world.marked(far.interface.kind, far.interface.mark)
            places.update(("port", identity(port)) for port in ports)
    signs.update(_signs({kind: [want.body for want in unit.wants if want.kind is kind] for kind in EVIDENCE}))
    if body.get("serial"):
        signs.add(("serial", str(body["serial"])))
    return places, signs


def _held(world: World, mark: str, record: Record) -> tuple[set[Hashable], set[Hashable]]:
    """Places and signs that a device of ours has in NetBox."""
    places: set[Hashable] = set()
    if record.get("position") is not None:
        places.add(("rack", repr(plain(record.get("rack"))), repr(record["position"])))
    for cable in world.beneath(CABLE, mark):
        places.update(("port", end) for _, end in cable_ends(plain_record(CABLE, cable)) if isinstance(end, int))
    signs: set[Hashable] = _signs({kind: world.beneath(kind, mark) for kind in EVIDENCE})
    if record.get("serial"):
        signs.add(("serial", str(record["serial"])))
    return places, signs


def _signs(records: Mapping[Kind, Sequence[Mapping[str, object]]]) -> set[Hashable]:
    addresses = {("address", str(one.get("address"))) for one in records[IP_ADDRESS]}
    return addresses | {("mac", str(one.get("mac_address"))) for one in records[MAC_ADDRESS]}


def devices_of(world: World, site: str) -> dict[str, Record]:
    """Our devices of a site by mark, as far as fetched."""
    return {mark: record for record in world.beneath(DEVICE, f"{site}/device") if (mark := mark_of(record))}
