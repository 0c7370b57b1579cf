"""The driver's contract on the in-memory store, as NetBox 4.6 and as 4.7."""

from __future__ import annotations

import pytest
from doubles.netbox_store import MemoryStore
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here
from netbox_contract.handover import *  # noqa: F403
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy

from pinion.drivers.netbox import NetBoxDriver


@pytest.fixture(params=[((4, 6), 0.0), ((4, 7), 0.0), ((4, 7), 60.0)], ids=["4.6", "4.7", "4.7-listings-kept"])
def mode(request: pytest.FixtureRequest) -> tuple[tuple[int, int], float]:
    """Whose behaviour, and how long listings are kept."""
    found: tuple[tuple[int, int], float] = request.param
    return found


@pytest.fixture
def spy(mode: tuple[tuple[int, int], float]) -> Spy:
    return Spy(MemoryStore(mode[0]))


@pytest.fixture
def driver(spy: Spy, mode: tuple[tuple[int, int], float]) -> NetBoxDriver:
    return NetBoxDriver.on(spy, window=0.02, fresh=mode[1])


@pytest.fixture
def hand(spy: Spy, driver: NetBoxDriver) -> Hand:
    return Hand(spy.store, driver.forget)


@pytest.fixture
def rival(spy: Spy) -> NetBoxDriver:
    return NetBoxDriver.on(spy.store)


@pytest.fixture
def sample() -> Sample:
    return Sample.new()
