"""Renames and exchanges that are killed after each of their writes: repeated, they end where they would have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import pytest
from doubles.netbox_store import MemoryStore
from netbox_contract.handover import named
from netbox_contract.samples import Sample

from pinion.drivers.netbox import CableTo, DeviceRecord, NetBoxDriver, VlanRecord
from pinion.drivers.netbox.kinds import KINDS, Kind
from pinion.drivers.netbox.plain import mark_of
from pinion.drivers.netbox.results import ServerFacts
from pinion.drivers.netbox.store import Body, Record

T = TypeVar("T")
Wanted: TypeAlias = list[VlanRecord | DeviceRecord]


class KilledError(Exception):
    """The process is no more."""


class Mortal:
    """A store whose user is killed when the *last*-th write (from 1) is done and not yet answered."""

    def __init__(self, store: MemoryStore, last: int) -> None:
        self._store = store
        self._last = last
        self.writes = 0

    @property
    def url(self) -> str:
        return self._store.url

    def facts(self) -> ServerFacts:
        return self._store.facts()

    def find(
        self, kind: Kind, fixed: Mapping[str, str], name: str | None = None, values: Sequence[str] = ()
    ) -> list[Record]:
        return self._store.find(kind, fixed, name, values)

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        return self._until(lambda: self._store.create(kind, bodies))

    def update(self, kind: Kind, patches: Sequence[Body], etags: Sequence[str]) -> list[Record]:
        return self._until(lambda: self._store.update(kind, patches, etags))

    def delete(self, kind: Kind, ids: Sequence[int], etags: Sequence[str]) -> None:
        return self._until(lambda: self._store.delete(kind, ids, etags))

    def _until(self, work: Callable[[], T]) -> T:
        self.writes += 1
        if self.writes > self._last:
            raise KilledError
        result = work()
        if self.writes == self._last:
            raise KilledError
        return result


def _rename(sample: Sample) -> tuple[Wanted, list[str]]:
    return [sample.vlan("edge-ai"), named(sample.pi(), "pi-a")], ["vlan/edge", "device/pi-01"]


def _new_hardware(sample: Sample) -> tuple[Wanted, list[str]]:
    new = named(sample.pi(1, name="lan0", mac=None), "pi-a")
    return [new.model_copy(update={"platform": None, "device_type": f"switch-{sample.name}"})], ["device/pi-01"]


def _exchange_of_vlans(sample: Sample) -> tuple[Wanted, list[str]]:
    return [sample.vlan("edge", 100), sample.vlan("control", 101)], []


def _exchange_of_devices(sample: Sample) -> tuple[Wanted, list[str]]:
    return [named(sample.pi(2), "pi-01"), named(sample.pi(1), "pi-02")], []


def _row(sample: Sample) -> tuple[Wanted, list[str]]:
    return [named(sample.pi(1), "pi-02"), named(sample.pi(2), "pi-03")], ["device/pi-01"]


def _other_ports(sample: Sample) -> tuple[Wanted, list[str]]:
    ports = [CableTo(device="tor-1", interface=f"Ethernet{n}") for n in (2, 1)]
    return [sample.pi(n, cable=port) for n, port in enumerate(ports, 1)], []


_STORIES = (_rename, _new_hardware, _exchange_of_vlans, _exchange_of_devices, _row, _other_ports)


def _apply(driver: NetBoxDriver, wanted: Wanted, *, together: bool) -> None:
    """Bring the units about, VLANs first, as an engine would."""
    vlans = [one for one in wanted if isinstance(one, VlanRecord)]
    devices = [one for one in wanted if isinstance(one, DeviceRecord)]
    size = len(wanted) if together else 1
    for start in range(0, len(wanted), size):
        for result in (
            *driver.vlans.lists.apply(vlans[start : start + size]),
            *driver.devices.lists.apply(devices[start : start + size]),
        ):
            assert not isinstance(result, Exception), result


def _delete(driver: NetBoxDriver, sample: Sample, old: list[str]) -> None:
    for unit in old:
        kind, _, name = unit.partition("/")
        deleted = (driver.vlans if kind == "vlan" else driver.devices).delete(f"{sample.name}/{name}")
        assert deleted.left == ()


def _marks(store: MemoryStore) -> list[str]:
    return sorted(mark for kind in KINDS if kind.marked for one in store.find(kind, {}) if (mark := mark_of(one)))


@pytest.mark.parametrize("old_first", [False, True], ids=["in-order", "old-ones-removed-first"])
@pytest.mark.parametrize("together", [True, False], ids=["together", "one-by-one"])
@pytest.mark.parametrize("story", _STORIES, ids=lambda story: story.__name__.strip("_"))
def test_killed_anywhere(story: Callable[[Sample], tuple[Wanted, list[str]]], together: bool, old_first: bool) -> None:
    last, ended = 0, False
    while not ended:
        last += 1
        store, sample = MemoryStore(), Sample.new()
        maker = NetBoxDriver.on(store)
        sample.make(maker, pis=2)
        maker.vlans.apply(sample.vlan("control", 100))
        wanted, old = story(sample)
        mortal = Mortal(store, last)
        victim = NetBoxDriver.on(mortal, fresh=60.0)
        try:
            _apply(victim, wanted, together=together)
            _delete(victim, sample, old)
            ended = mortal.writes < last
        except KilledError:
            pass
        after = NetBoxDriver.on(store)
        if old_first:  # as with a state that knows nothing of the new ones
            _delete(after, sample, old)
        _apply(after, wanted, together=together)
        _delete(after, sample, old)
        for one in wanted:
            units = after.vlans if isinstance(one, VlanRecord) else after.devices
            assert units.diff(one).empty, f"killed after write {last}"  # type: ignore[arg-type]
        marks = _marks(store)
        assert len(marks) == len(set(marks)), f"killed after write {last}"
        assert not [mark for mark in marks for unit in old if mark.startswith(f"{sample.name}/{unit}/")]
    assert last > 2
