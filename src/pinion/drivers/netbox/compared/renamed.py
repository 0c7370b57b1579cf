"""Which device or rack of ours one of a new name was until now: the same hardware in the same place. Pure over a `View`.

A VLAN is known by its VID. A device has nothing of the kind, so it takes two proofs: a place (a port that a cable leads to, or a rack
unit) and a sign of its own (an address, a MAC address, the serial number), each as far as the site file states any, and no contradiction.
With less, the device counts as new; it then takes over what it needs one by one, and only NetBox's id of the device is another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.compared.batch import Batch, Item
from pinion.drivers.netbox.compared.matching import Others, candidates, own
from pinion.drivers.netbox.found.view import View
from pinion.drivers.netbox.kinds import CABLE, DEVICE, IP_ADDRESS, MAC_ADDRESS, RACK, Ends, Kind
from pinion.drivers.netbox.kinds.marks import mark_of, site_of
from pinion.drivers.netbox.kinds.values import Record, cable_ends, identity, plain

#: Kinds of which each record is a device's own, with the field that says so.
_SIGNS = ((IP_ADDRESS, "address"), (MAC_ADDRESS, "mac_address"))


def renamed(batch: Batch, kind: Kind, items: Sequence[Item], others: Others) -> dict[str, Record]:
    """For racks and devices that NetBox has under neither mark nor name: the record that each was until now, by mark."""
    if kind is RACK:
        named = {item.want.mark for item in items if candidates(batch.view, RACK, item.body)}
        return {mark: one for mark, one in same_racks(batch).items() if mark not in named}
    return _same_devices(batch.view, items, others) if kind is DEVICE else {}


def same_racks(batch: Batch) -> dict[str, Record]:
    """Racks of a new name that were another one of the site until now, by mark: the only one that went, or the only one as high.

    Devices hold on to a rack, so it can't be deleted before they are in the new one; and they refer to it only after the site is done.
    """
    found: dict[str, Record] = {}
    for unit in batch.units:
        wants = [want for want in unit.wants if want.kind is RACK]
        new = [want for want in wants if not batch.view.marked(RACK, want.mark)]
        kept = {want.mark for want in wants}
        old = [one for one in batch.view.beneath(RACK, unit.mark) if mark_of(one) not in kept] if new else []
        for want in new:
            height = want.body.get("u_height")
            alike = [one for one in old if len(new) == len(old) == 1 or one.get("u_height") == height]
            if len(alike) == 1 and len([one for one in new if one.body.get("u_height") == height]) == 1:
                found[want.mark] = alike[0]
    return found


def has_place(record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Whether a device is in the rack unit that *body* says."""
    return plain(record.get("rack")) == body.get("rack") and record.get("position") == body.get("position")


def _same_devices(view: View, items: Sequence[Item], others: Others) -> dict[str, Record]:
    new = [item for item in items if not own(view, item.want, others)]
    if not new and all(has_place(one, item.body) for item in items for one in own(view, item.want, others)):
        return {}
    sites = {site_of(item.want.mark) for item in items}
    view.load_marks(DEVICE, (), [f"{site}/device" for site in sites])
    devices = {mark_of(one) or "": one for site in sites for one in view.beneath(DEVICE, f"{site}/device")}
    free = {mark: one for mark, one in devices.items() if mark not in others.alive}
    if not new or not free:
        return {}
    view.load_all(dict.fromkeys((CABLE, *(kind for kind, _ in _SIGNS)), ((), list(free))))
    known = {site: _Devices(view, {mark: one for mark, one in free.items() if site_of(mark) == site}) for site in sites}
    found: dict[str, Record] = {}
    for item in new:
        record = None if candidates(view, DEVICE, item.body) else known[site_of(item.want.mark)].find(item)
        if record is not None and identity(record) not in map(identity, found.values()):
            found[item.want.mark] = record
    return found


@dataclass(slots=True)
class _Traits:
    """What is known of a device: where it is, and what only it has."""

    places: set[Hashable] = field(default_factory=set)
    signs: set[Hashable] = field(default_factory=set)

    def add_fields(self, fields: Mapping[str, JsonValue]) -> None:
        if fields.get("position") is not None:
            self.places.add(("rack", repr(fields.get("rack")), repr(fields["position"])))
        if fields.get("serial"):
            self.signs.add(("serial", str(fields["serial"])))

    def agrees_with(self, other: _Traits) -> bool:
        """Whether *other* has what this one states."""
        pairs = ((self.places, other.places), (self.signs, other.signs))
        return all(not mine or bool(mine & its) for mine, its in pairs)


class _Devices:
    """Devices of ours, by the mark of their unit, to find a wanted one among them."""

    def __init__(self, view: View, devices: Mapping[str, Record]) -> None:
        self._view = view
        self._devices = devices
        self._held: dict[str, _Traits] = {mark: _Traits() for mark in devices}
        for mark, record in devices.items():
            self._held[mark].add_fields({name: plain(value) for name, value in record.items()})
        for mark, cables in view.by_unit(CABLE, devices).items():
            ends = [end for cable in cables for end in cable_ends(CABLE.plain(cable))]
            self._held[mark].places.update(("port", number) for _, number in ends)
        for kind, name in _SIGNS:
            for mark, records in view.by_unit(kind, devices).items():
                self._held[mark].signs.update((name, str(one.get(name))) for one in records)
        self._having: dict[Hashable, set[str]] = defaultdict(set)
        for mark, traits in self._held.items():
            for trait in traits.places | traits.signs:
                self._having[trait].add(mark)

    def find(self, item: Item) -> Record | None:
        """The one device that *item* is under a new name; None when none or several are."""
        wanted = self._wanted(item)
        marks = {mark for trait in wanted.places | wanted.signs for mark in self._having.get(trait, ())}
        found = [self._devices[mark] for mark in marks if wanted.agrees_with(self._held[mark])]
        found = [one for one in found if _is_same_make(one, item.body)]
        return found[0] if len(found) == 1 else None

    def _wanted(self, item: Item) -> _Traits:
        traits = _Traits()
        traits.add_fields(item.body)
        for want in item.unit.wants:
            far = want.body.get("b_terminations")
            if want.kind is CABLE and isinstance(far, Ends):
                ports = self._view.marked(far.interface.kind, far.interface.mark)
                traits.places.update(("port", identity(port)) for port in ports)
            traits.signs.update((name, str(want.body.get(name))) for kind, name in _SIGNS if want.kind is kind)
        return traits


def _is_same_make(record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Same type and role, and not another serial number."""
    if any(plain(record.get(name)) != body.get(name) for name in ("device_type", "role")):
        return False
    return not record.get("serial") or not body.get("serial") or record["serial"] == body["serial"]
