"""A NetBox that answers wrongly, late or not at all, through the fault proxy: bounded retries, clear errors, and the next run goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from doubles.faults import Fault, FaultProxy, Request, Script, Seeded, too_many
from doubles.plugin_engine import partial_of
from engine.conftest import small
from engine.kill import LoneProvider, doubles, lone_provider
from engine.netbox_server import TOKEN, Server
from engine.stack import Stack
from thoroughness import points

from pinion.drivers.netbox.desired import DeviceRecord, SiteRecords, VlanRecord
from pinion.plan import Plan
from pinion.provider import main as provider
from pinion.provider.netbox import IDENTITIES
from pinion.provider.plugin import Value
from pinion.provider.plugin.values import decode
from pinion.provider.shape import Shape

TOTAL = 3.0  # seconds that one call may take with all its repetitions


@pytest.fixture
def proxy(netbox: Server) -> Iterator[FaultProxy]:
    with FaultProxy(netbox.url) as proxy:
        yield proxy


@pytest.fixture
def lone(proxy: FaultProxy) -> Iterator[LoneProvider]:
    config = {"netboxUrl": proxy.url, "netboxToken": TOKEN, "netboxTotalTime": str(TOTAL), "netboxReadTimeout": "1"}
    with lone_provider(config) as lone:
        yield lone


class Maker:
    """Makes the records of a small site, one resource after the other."""

    def __init__(self, lone: LoneProvider, plan: Plan) -> None:
        self._client = lone.client
        wishes = small(plan)
        kinds: tuple[tuple[str, type[Any], Any], ...] = (
            (provider.SITE, SiteRecords, wishes["sites"]),
            (provider.VLAN, VlanRecord, wishes["vlans"]),
            (provider.DEVICE, DeviceRecord, wishes["devices"]),
        )
        self.units: list[tuple[str, str, dict[str, Value]]] = [
            (token, record.key, Shape(model, IDENTITIES).properties(record))
            for token, model, ones in kinds
            for record in map(model.model_validate, ones)
        ]

    def make(self, *tokens: str) -> list[dict[str, Value]]:
        """Create all units (of these kinds)."""
        made = []
        for token, name, properties in self.units:
            if not tokens or token in tokens:
                checked = self._client.check(token, name, properties)
                made.append(self._client.create(token, name, decode(checked.inputs))[1])
        return made


@pytest.fixture
def maker(lone: LoneProvider, lab_plan: Plan) -> Maker:
    return Maker(lone, lab_plan)


def _is_write(request: Request) -> bool:
    return request.method != "GET"


@pytest.mark.parametrize("seed", range(points(1, 4)))
def test_passing_faults_all_along_are_survived(maker: Maker, proxy: FaultProxy, netbox: Server, seed: int) -> None:
    """A write whose answer is lost may be told as an error, with what exists kept; the next call goes on from there."""
    proxy.set_schedule(Seeded(seed))
    for _ in range(12):
        with suppress(grpc.RpcError):
            maker.make()
            break
    proxy.set_schedule(lambda _: None)
    assert {one["owner"] for one in maker.make()} == {"created"}
    assert not doubles(netbox)
    assert any(fault for _, fault in proxy.log)


def test_retry_after_is_heeded(maker: Maker, proxy: FaultProxy) -> None:
    proxy.set_schedule(Script([too_many(1), too_many(1)], matches=_is_write))
    start = time.monotonic()
    maker.make(provider.SITE)
    assert time.monotonic() - start >= 2.0


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault("answer", 500), id="500"),
        pytest.param(Fault("hang"), id="hang"),
        pytest.param(Fault("cut"), id="cut"),
        pytest.param(Fault("answer", 502), id="502", marks=pytest.mark.variant),
        pytest.param(Fault("drop"), id="drop", marks=pytest.mark.variant),
        pytest.param(too_many(600), id="429 for long", marks=pytest.mark.variant),
    ],
)
def test_a_server_that_stays_wrong_is_given_up_in_bounded_time_with_a_clear_error(
    maker: Maker, proxy: FaultProxy, netbox: Server, fault: Fault
) -> None:
    maker.make(provider.SITE)
    proxy.set_schedule(lambda _: fault)
    start = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        maker.make(provider.VLAN)
    assert time.monotonic() - start < 12 * TOTAL
    assert caught.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN}
    told = str(caught.value.details())
    assert "VLAN lab/" in told
    assert proxy.url in told
    proxy.set_schedule(lambda _: None)
    maker.make()
    assert not doubles(netbox)


def test_what_was_made_before_the_failure_is_in_the_state(maker: Maker, proxy: FaultProxy, netbox: Server) -> None:
    maker.make(provider.SITE)
    hits = {"VLAN": 0}

    def no_prefixes(request: Request) -> Fault | None:
        if request.method == "POST" and "prefixes" in request.path:
            hits["VLAN"] += 1
            return Fault("answer", 500)
        return None

    proxy.set_schedule(no_prefixes)
    with pytest.raises(grpc.RpcError) as caught:
        maker.make(provider.VLAN)
    assert hits["VLAN"]
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.outputs["owner"] == "created"
    assert "prefixes" not in partial.outputs or partial.outputs["prefixes"] == {}
    assert "500" in partial.reasons[0]
    assert netbox.objects()["VLAN"] == 1


@pytest.mark.parametrize("certificate", ["unknown-authority", "expired", "other-name"])
def test_a_bad_certificate_is_refused_at_once_and_nothing_is_sent(
    netbox: Server, lab_plan: Plan, tmp_path: Path, certificate: Any
) -> None:
    with FaultProxy(netbox.url, certificate=certificate) as proxy:
        config = {"netboxUrl": proxy.url, "netboxToken": TOKEN, "netboxTotalTime": str(TOTAL)}
        if certificate != "unknown-authority":
            (tmp_path / "ca.pem").write_bytes(proxy.certificate)
            config["netboxCaFile"] = str(tmp_path / "ca.pem")
        with lone_provider(config) as lone, pytest.raises(grpc.RpcError) as caught:
            Maker(lone, lab_plan).make(provider.SITE)
        assert "certificate is not accepted" in str(caught.value.details())
        assert proxy.url in str(caught.value.details())
        assert proxy.requests == 0
    assert not netbox.calls


def test_the_engine_keeps_what_succeeded_and_the_next_up_goes_on(
    netbox_stack: Stack, netbox: Server, lab_plan: Plan
) -> None:
    with FaultProxy(netbox.url) as proxy:
        netbox_stack.wishes = small(lab_plan)
        netbox_stack.set("netbox:url", proxy.url)
        netbox_stack.set("netbox:totalTime", str(TOTAL))
        proxy.set_schedule(
            lambda request: (
                Fault("answer", 500) if request.method == "POST" and "ip-addresses" in request.path else None
            )
        )
        failed = netbox_stack.up(check=False)
        assert failed.code != 0
        assert "500" in failed.text
        state = netbox_stack.state()
        assert "pinion:netbox:Site lab" in state
        half = [one for one in state.values() if one.get("initErrors")]
        assert half, "what exists in part is in the state, with the reason"
        proxy.set_schedule(lambda _: None)
        netbox_stack.up()
        assert not doubles(netbox)
        assert netbox_stack.steps("--refresh") == {}
