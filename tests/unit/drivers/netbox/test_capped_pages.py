"""The driver's contract over HTTP, on a NetBox whose `MAX_PAGE_SIZE` is far below the page asked for, and pages that can't be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from doubles.netbox_store import MemoryStore
from engine.netbox_server import TOKEN, Server, serving
from netbox_contract.contract import *  # noqa: F403 - pytest collects the tests of the contract here
from netbox_contract.samples import Sample
from netbox_contract.spying import Hand, Spy

from pinion.drivers.netbox import NetBoxDriver, RefusedError
from pinion.drivers.netbox.http_store import HttpStore
from pinion.drivers.netbox.kinds import VLAN, Kind
from pinion.drivers.netbox.store import Body, Record

#: Fewer than any unit has records of a kind that comes in numbers.
CAP = 2


@pytest.fixture
def server() -> Iterator[Server]:
    """A NetBox that gives two records a page, whatever is asked for."""
    with serving(MemoryStore(max_page_size=CAP)) as one:
        yield one


@pytest.fixture
def store(server: Server) -> Iterator[HttpStore]:
    one = HttpStore(server.url, TOKEN)
    yield one
    one.close()


@pytest.fixture
def spy(store: HttpStore) -> Spy:
    return Spy(store)


@pytest.fixture
def driver(spy: Spy) -> NetBoxDriver:
    return NetBoxDriver.on(spy, window=0.02, fresh=60.0)


@pytest.fixture
def hand(store: HttpStore, driver: NetBoxDriver) -> Hand:
    return Hand(store, driver.forget)


@pytest.fixture
def rival(server: Server) -> Iterator[NetBoxDriver]:
    one = NetBoxDriver(server.url, TOKEN)
    yield one
    one.close()


@pytest.fixture
def sample() -> Sample:
    return Sample.new()


def _vlans(count: int) -> list[dict[str, object]]:
    return [{"vid": vid, "name": f"v{vid}"} for vid in range(1, count + 1)]


@pytest.mark.parametrize("cap", [1, 2, 3, 7, 100, 1000])
@pytest.mark.parametrize("count", [0, 1, 6, 250])
def test_a_listing_is_complete_whatever_the_server_makes_of_a_page(cap: int, count: int) -> None:
    memory = MemoryStore(max_page_size=cap)
    if count:
        memory.create(VLAN, _vlans(count))  # type: ignore[arg-type]
    with serving(memory) as server:
        store = HttpStore(server.url, TOKEN)
        assert [one["vid"] for one in store.find(VLAN, {})] == list(range(1, count + 1))
        assert server.reads() == max(1, -(-count // cap)), "a page more than there are"
        store.close()


def test_a_page_that_is_full_by_chance_is_the_last_when_the_server_says_so() -> None:
    """As many as asked for, and no more: the former code asked once too often."""
    memory = MemoryStore()
    memory.create(VLAN, _vlans(4))  # type: ignore[arg-type]
    with serving(memory) as server:
        store = HttpStore(server.url, TOKEN, page=4)
        assert len(store.find(VLAN, {})) == 4
        assert server.reads() == 1
        store.close()


class _Shuffled(MemoryStore):
    """A NetBox that answers in another order, here the newest first: in its pages, and to a list of creates."""

    def create(self, kind: Kind, bodies: Sequence[Body]) -> list[Record]:
        return super().create(kind, bodies)[::-1]

    def page(self, *args: object, start: int, limit: int, **more: object) -> tuple[list[Record], int | None]:
        shown, following = super().page(*args, start=start, limit=limit, **more)  # type: ignore[arg-type]
        return shown[::-1], following


def test_pages_in_another_order_are_refused_and_a_single_page_is_put_in_order() -> None:
    """By ids we go on: with pages in another order some records would look absent, and be made again or deleted."""
    memory = _Shuffled(max_page_size=3)
    memory.create(VLAN, _vlans(3))  # type: ignore[arg-type]
    with serving(memory) as server:
        store = HttpStore(server.url, TOKEN)
        assert [one["vid"] for one in store.find(VLAN, {})] == [1, 2, 3]
        memory.create(VLAN, [{"vid": 4, "name": "v4"}])
        with pytest.raises(RefusedError, match="not in order of ids"):
            store.find(VLAN, {})
        store.close()


def test_creates_answered_in_another_order_are_told_apart_by_their_marks(sample: Sample) -> None:
    """Else the addresses of one port would go to another."""
    with serving(_Shuffled()) as server:
        driver = NetBoxDriver(server.url, TOKEN)
        sample.make(driver, pis=3)
        for unit in (sample.switch(), *(sample.pi(n) for n in (1, 2, 3))):
            read = driver.devices.read(unit.key)
            assert read is not None
            assert read.record == unit
        driver.close()
