"""The three units, each made and removed as a whole: of which records they consist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, get_args

from pydantic import BaseModel

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

    def model_of(self, kind: Kind) -> type[BaseModel]:
        """The model of the things of *kind* that stand in the unit."""
        found: type[BaseModel] = get_args(self.model.model_fields[kind.listed].annotation)[0]
        return found

    def wants(self, unit: D) -> list[Want]:
        """The records that a unit consists of."""
        return [kind.want(words) for kind in self.kinds for words in kind.parts(unit)]


SITE_UNIT = UnitType("site", SITE, SiteRecords)
VLAN_UNIT = UnitType("vlan", VLAN, VlanRecord)
DEVICE_UNIT = UnitType("device", DEVICE, DeviceRecord)

_UNITS: tuple[UnitType[Any], ...] = (SITE_UNIT, VLAN_UNIT, DEVICE_UNIT)
#: The property by which each thing that stands in a list of a unit is known.
IDENTITIES: Final[Mapping[type[BaseModel], str]] = {
    unit.model_of(kind): kind.named_by for unit in _UNITS for kind in unit.kinds if kind.listed
}
