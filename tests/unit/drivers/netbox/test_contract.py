"""The driver's contract on the in-memory store, as NetBox 4.6 and as 4.7."""

from __future__ import annotations

import pytest
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here
from netbox_contract.samples import Sample
from netbox_contract.spying import Spy

from pinion.drivers.netbox import NetBoxDriver
from pinion.drivers.netbox.memory import MemoryStore


@pytest.fixture(params=[(4, 6), (4, 7)], ids=["4.6", "4.7"])
def spy(request: pytest.FixtureRequest) -> Spy:
    return Spy(MemoryStore(request.param))


@pytest.fixture
def driver(spy: Spy) -> NetBoxDriver:
    return NetBoxDriver.on(spy, window=0.02)


@pytest.fixture
def rival(spy: Spy) -> NetBoxDriver:
    return NetBoxDriver.on(spy.store)


@pytest.fixture
def sample() -> Sample:
    return Sample.new()
