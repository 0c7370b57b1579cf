"""Which device or rack of ours one of a new name was until now: the same hardware in the same place. Pure over a `World`.

A VLAN is known by its VID. A device has nothing of the kind, so it takes two proofs: a place (a port that a cable leads to, or a rack
unit) and a sign of its own (an address, a MAC address, the serial number), each as far as the site file states any, and no contradiction.
With less, the device counts as new; it then takes over what it needs one by one, and only NetBox's id of the device is another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from pinion.drivers.netbox.kinds import CABLE, IP_ADDRESS, MAC_ADDRESS, RACK, Kind
from pinion.drivers.netbox.plain import cable_ends, mark_of, plain, plain_record
from pinion.drivers.netbox.store import Record, identity
from pinion.drivers.netbox.units import Batch, Item
from pinion.drivers.netbox.wants import Ends
from pinion.drivers.netbox.world import World

#: Kinds by which a device is recognised: they must have been fetched.
EVIDENCE: tuple[Kind, ...] = (CABLE, IP_ADDRESS, MAC_ADDRESS)


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
        return all(
            not mine or bool(mine & its) for mine, its in ((self.places, other.places), (self.signs, other.signs))
        )

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.places | self.signs)


class Likeness:
    """Compares wanted devices with *others*: devices of ours by the mark of their unit."""

    def __init__(self, world: World, others: Mapping[str, Record]) -> None:
        self._world = world
        self._others = others
        self._held: dict[str, _Traits] = {mark: _Traits() for mark in others}
        for mark, record in others.items():
            self._held[mark].add_fields({name: plain(value) for name, value in record.items()})
        for mark, cables in world.by_unit(CABLE, others).items():
            ends = [end for cable in cables for end in cable_ends(plain_record(CABLE, cable))]
            self._held[mark].places.update(("port", number) for _, number in ends)
        for kind, name in ((IP_ADDRESS, "address"), (MAC_ADDRESS, "mac_address")):
            for mark, records in world.by_unit(kind, others).items():
                self._held[mark].signs.update((name, str(one.get(name))) for one in records)
        self._having: dict[Hashable, set[str]] = defaultdict(set)
        for mark, traits in self._held.items():
            for trait in traits:
                self._having[trait].add(mark)

    def find(self, item: Item) -> Record | None:
        """The one device that *item* is under a new name; None when none or several are."""
        wanted = self._wanted(item)
        marks = {mark for trait in wanted for mark in self._having.get(trait, ())}
        found = [self._others[mark] for mark in marks if wanted.agrees_with(self._held[mark])]
        found = [one for one in found if _is_same_make(one, item.body)]
        return found[0] if len(found) == 1 else None

    def _wanted(self, item: Item) -> _Traits:
        traits = _Traits()
        traits.add_fields(item.body)
        for want in item.unit.wants:
            far = want.body.get("b_terminations")
            if want.kind is CABLE and isinstance(far, Ends):
                ports = self._world.marked(far.interface.kind, far.interface.mark)
                traits.places.update(("port", identity(port)) for port in ports)
            for kind, name in ((IP_ADDRESS, "address"), (MAC_ADDRESS, "mac_address")):
                if want.kind is kind:
                    traits.signs.add((name, str(want.body.get(name))))
        return traits


def same_racks(batch: Batch) -> dict[str, Record]:
    """Racks of a new name that were another one of the site until now, by mark: the only one that went, or the only one as high.

    Devices hold on to a rack, so it can't be deleted before they are in the new one; and they refer to it only after the site is done.
    """
    found: dict[str, Record] = {}
    for unit in batch.units:
        wants = [want for want in unit.wants if want.kind is RACK]
        new = [want for want in wants if not batch.world.marked(RACK, want.mark)]
        if not new:
            continue
        kept = {want.mark for want in wants}
        old = [one for one in batch.world.beneath(RACK, unit.mark) if mark_of(one) not in kept]
        for want in new:
            alike = [
                one for one in old if len(new) == len(old) == 1 or one.get("u_height") == want.body.get("u_height")
            ]
            rivals = [one for one in new if one.body.get("u_height") == want.body.get("u_height")]
            if len(alike) == 1 and len(rivals) == 1:
                found[want.mark] = alike[0]
    return found


def _is_same_make(record: Record, body: Mapping[str, JsonValue]) -> bool:
    """Same type and role, and not another serial number."""
    if any(plain(record.get(name)) != body.get(name) for name in ("device_type", "role")):
        return False
    return not record.get("serial") or not body.get("serial") or record["serial"] == body["serial"]
