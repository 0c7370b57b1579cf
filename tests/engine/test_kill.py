"""Kill -9 of the engine and of the provider at seeded points: the next run converges, with never two of anything and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import grpc
import pytest
from doubles.netbox_store import MemoryStore
from engine.conftest import small
from engine.kill import LoneProvider, Point, doubles, killed_run, lone_provider, seeded_points, trap
from engine.netbox_server import TOKEN, Server
from engine.stack import STACK, Stack
from thoroughness import points

from pinion.bringup.stack import up
from pinion.drivers.netbox.desired import DeviceRecord, SiteRecords, VlanRecord
from pinion.plan import Plan
from pinion.provider import main as provider
from pinion.provider.netbox import IDENTITIES
from pinion.provider.plugin import Value
from pinion.provider.plugin.values import decode
from pinion.provider.shape import Shape

#: Both samples are of all writes of one `up` of the records below (as many as test_the_points_cover_a_whole_run says).
WRITES = 22
ENGINE_POINTS = seeded_points(seed=20261121, count=8, writes=WRITES)[: points(2, 8)]
LONE_POINTS = seeded_points(seed=7, count=30, writes=WRITES, victims=("provider",))
DESTROY_POINTS = seeded_points(seed=3, count=2, writes=10)[: points(1, 2)]


@pytest.fixture
def small_stack(netbox_stack: Stack, lab_plan: Plan) -> Stack:
    netbox_stack.wishes = small(lab_plan)
    return netbox_stack


@pytest.mark.parametrize("batch", range(2))
def test_a_killed_up_is_finished_by_the_next(small_stack: Stack, netbox: Server, batch: int) -> None:
    for point in ENGINE_POINTS[batch::2]:
        reached = killed_run(small_stack, netbox, point)
        assert reached, f"{point} was not reached: has the number of writes changed?"
        small_stack.recover()
        small_stack.up()
        assert not doubles(netbox), str(point)
        state = small_stack.state()
        assert len(state) == 7, f"{point}: {sorted(state)}"
        assert {one["outputs"]["owner"] for one in state.values()} == {"created"}
        netbox.store = MemoryStore()
        small_stack.forget()


def test_what_a_killed_up_made_is_in_the_state_of_the_next(small_stack: Stack, netbox: Server) -> None:
    assert killed_run(small_stack, netbox, Point("engine", WRITES // 2, "after"))
    small_stack.recover()
    small_stack.up()
    small_stack.destroy()
    left = {kind: count for kind, count in netbox.objects().items() if count}
    assert left == {"tag": 1, "custom field": 2}, "lost from the state, so left behind"


@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.variant), True])
def test_what_a_killed_up_left_pending_is_forgotten_once_it_is_made_good(
    small_stack: Stack, netbox: Server, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    assert killed_run(small_stack, netbox, Point("engine", WRITES // 2, "after"))
    small_stack.recover()
    if gone:
        small_stack.rename_pending("gone-from-the-site-file")
    assert small_stack.pending(), "nothing was under way at the kill"
    for name, value in small_stack.env().items():
        monkeypatch.setenv(name, value)
    done = up(small_stack.folder, STACK, refresh=False, progress=print)
    assert done.unfinished == (["creating gone-from-the-site-file"] if gone else [])
    assert bool(small_stack.pending()) == gone
    assert len(small_stack.state()) == 7


def test_a_killed_destroy_is_finished_by_the_next(small_stack: Stack, netbox: Server) -> None:
    for point in DESTROY_POINTS:
        small_stack.up()
        assert killed_run(small_stack, netbox, point, "destroy", "--stack", "test", "--yes", "--skip-preview"), str(
            point
        )
        small_stack.recover()
        small_stack.destroy()
        left = {kind: count for kind, count in netbox.objects().items() if count}
        assert left == {"tag": 1, "custom field": 2}, str(point)


# --- the provider alone -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def units(lab_plan: Plan) -> list[tuple[str, str, dict[str, Value]]]:
    """(token, name, properties) in the order in which an engine would make them."""
    wishes = small(lab_plan)
    kinds = (
        (provider.SITE, SiteRecords, wishes["sites"]),
        (provider.VLAN, VlanRecord, wishes["vlans"]),
        (provider.DEVICE, DeviceRecord, wishes["devices"]),
    )
    return [
        (token, record.key, Shape(model, IDENTITIES).properties(record))  # type: ignore[type-var]
        for token, model, ones in kinds
        for record in map(model.model_validate, ones)
    ]


def _make(lone: LoneProvider, units: list[tuple[str, str, dict[str, Value]]]) -> Iterator[dict[str, Value]]:
    for token, name, properties in units:
        checked = lone.client.check(token, name, properties)
        assert not checked.failures
        yield lone.client.create(token, name, decode(checked.inputs))[1]


def _config(netbox: Server) -> dict[str, str]:
    return {"netboxUrl": netbox.url, "netboxToken": TOKEN}


def test_the_points_cover_a_whole_run(netbox: Server, units: list[tuple[str, str, dict[str, Value]]]) -> None:
    with lone_provider(_config(netbox)) as lone:
        list(_make(lone, units))
    assert netbox.writes >= WRITES


@pytest.mark.parametrize("point", LONE_POINTS, ids=str)
def test_a_killed_provider_leaves_what_the_next_one_finishes(
    netbox: Server, units: list[tuple[str, str, dict[str, Value]]], point: Point
) -> None:
    with lone_provider(_config(netbox)) as lone, trap(netbox, point, lone.kill) as hit, suppress(grpc.RpcError):
        list(_make(lone, units))
    assert hit.is_set(), f"{point} was not reached"
    with lone_provider(_config(netbox)) as lone:
        made = list(_make(lone, units))
        assert {one["owner"] for one in made} == {"created"}
        assert not doubles(netbox)
        before = netbox.writes
        list(_make(lone, units))
        assert netbox.writes == before, "a third run found something to write"
