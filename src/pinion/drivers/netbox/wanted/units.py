"""The three units, each made and removed as a whole: of which records they consist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from pinion.drivers.netbox.kinds import DEVICE, KINDS_OF_UNIT, SITE, VLAN, Kind, Want
from pinion.drivers.netbox.wanted.records import D, DeviceRecord, SiteRecords, VlanRecord


@dataclass(frozen=True, slots=True)
class UnitType(Generic[D]):
    """One of the three units: what states it, and the record that stands for it. *stem* is its word in marks."""

    stem: str
    main: Kind
    model: type[D]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of record of which such a unit consists, in the order of creation."""
        return KINDS_OF_UNIT[self.stem]

    def mark(self, key: str) -> str:
        """Mark of the unit with that key."""
        site, _, name = key.partition("/")
        return f"{site}/{self.stem}/{name}" if name else f"{site}/{self.stem}"

    def wants(self, unit: D) -> list[Want]:
        """The records that a unit consists of."""
        return [kind.want(words) for kind in self.kinds for words in kind.parts(unit)]


SITE_UNIT = UnitType("site", SITE, SiteRecords)
VLAN_UNIT = UnitType("vlan", VLAN, VlanRecord)
DEVICE_UNIT = UnitType("device", DEVICE, DeviceRecord)
