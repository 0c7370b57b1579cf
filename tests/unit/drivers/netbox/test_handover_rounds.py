"""Exchanges among many: a whole row of VLANs or devices moves round by one, in one apply and without a wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import pytest
from doubles.netbox_store import MemoryStore
from netbox_contract.handover import named
from netbox_contract.samples import Sample

from pinion.drivers.netbox import NetBoxDriver, VlanRecord

_MANY: Final = 12


def _vlan(sample: Sample, name: str, place: int) -> VlanRecord:
    net = f"10.{200 + place}.{sample.net.partition('.')[2]}"
    return sample.vlan(
        name,
        200 + place,
        prefixes=[{"prefix": f"{net}.0/24"}],
        ranges=[{"name": "pis", "start": f"{net}.100/24", "end": f"{net}.199/24"}],
    )


def _good(results: Sequence[object]) -> None:
    assert [one for one in results if isinstance(one, Exception)] == []


@pytest.mark.parametrize("fresh", [0.0, 60.0])
def test_a_row_of_vlans_moves_round(fresh: float) -> None:
    driver, sample = NetBoxDriver.on(MemoryStore(), fresh=fresh), Sample.new()
    sample.make(driver)
    names = [f"v{number}" for number in range(_MANY)]
    _good(driver.vlans.lists.apply([_vlan(sample, name, place) for place, name in enumerate(names)]))
    new = [_vlan(sample, name, (place + 1) % _MANY) for place, name in enumerate(names)]
    start = time.monotonic()
    _good(driver.vlans.lists.apply(new))
    assert time.monotonic() - start < 10
    assert all(one.empty for one in driver.vlans.lists.diff(new))


@pytest.mark.parametrize("fresh", [0.0, 60.0])
def test_a_row_of_devices_moves_round(fresh: float) -> None:
    driver, sample = NetBoxDriver.on(MemoryStore(), fresh=fresh), Sample.new()
    sample.make(driver, pis=_MANY)
    new = [named(sample.pi(number % _MANY + 1), f"pi-{number:02d}") for number in range(1, _MANY + 1)]
    _good(driver.devices.lists.apply(new))
    assert all(one.empty for one in driver.devices.lists.diff(new))
