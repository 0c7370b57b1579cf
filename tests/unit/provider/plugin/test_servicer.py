"""The provider protocol over a real channel, with a small provider of boxes behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from doubles.plugin_engine import Client, Line, partial_of, started
from google.protobuf import empty_pb2

from pinion.provider.plugin import (
    UNKNOWN,
    Call,
    Checked,
    Created,
    DeniedError,
    Difference,
    Failure,
    Found,
    PartialError,
    Plugin,
    Properties,
    RefusedError,
    ResourceKind,
    Secret,
    UnsupportedError,
    Value,
    differences,
    has_unknown,
    mark_like,
    plain_properties,
)

BOX = "boxes:index:Box"


class Boxes(Plugin):
    """Boxes kept in memory."""

    name = "boxes"
    version = "1.2.3"

    def __init__(self) -> None:
        self.boxes: dict[str, dict[str, Value]] = {}
        self.config: Properties = {}
        self.hold = threading.Event()
        self.cancels = 0

    def kind(self, token: str) -> ResourceKind:
        if token != BOX:
            raise UnsupportedError(f"boxes has no resource {token}")
        return Box(self)

    def configure(self, config: Properties, call: Call) -> None:
        self.config = config
        call.info(f"configured with {config['key']}")

    def cancel(self) -> None:
        self.cancels += 1


class Box(ResourceKind):
    def __init__(self, plugin: Boxes) -> None:
        self.plugin = plugin

    def check(self, call: Call, olds: Properties, news: Properties) -> Checked:
        failures = [Failure(key, "boxes have no such side") for key in news if key not in {"name", "width", "pin"}]
        return Checked({"width": 1, **news}, failures)

    def diff(
        self,
        call: Call,
        resource_id: str,
        old_inputs: Properties,
        olds: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> Difference:
        return differences(old_inputs, news, replace=["name"], ignore=ignore)

    def create(self, call: Call, news: Properties, *, preview: bool) -> Created:
        if preview:
            return Created("", {**news, "url": UNKNOWN})
        values = plain_properties(news)
        if values["name"] == "slow":
            self.plugin.hold.wait(30)
        if values["name"] == "patient":
            call.sleep(30)
        if values["name"] == "broken":
            raise ZeroDivisionError(f"no way with {values.get('pin')}")
        if values["name"] == "refused":
            raise RefusedError(f"box refused: pin {values.get('pin')} is taken (https://boxes/1)")
        self.plugin.boxes[str(values["name"])] = values
        if values["name"] == "half":
            raise PartialError("half", {**news}, ["the lid is missing: https://boxes/half"])
        return Created(str(values["name"]), mark_like({**values, "url": "https://boxes/1"}, news))

    def read(self, call: Call, resource_id: str, inputs: Properties, olds: Properties) -> Found | None:
        box = self.plugin.boxes.get(resource_id)
        return None if box is None else Found(resource_id, box, box)

    def update(
        self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties, news: Properties, *, preview: bool
    ) -> Properties:
        call.status(f"painting {resource_id}")
        return news

    def delete(self, call: Call, resource_id: str, old_inputs: Properties, olds: Properties) -> None:
        if resource_id not in self.plugin.boxes:
            raise DeniedError("not yours")
        del self.plugin.boxes[resource_id]


@pytest.fixture
def boxes() -> Boxes:
    return Boxes()


@pytest.fixture
def client(boxes: Boxes) -> Iterator[Client]:
    with started(boxes, grace=0.5) as client:
        yield client


def test_the_handshake_says_what_we_understand(client: Client) -> None:
    assert client.handshake.accept_secrets
    assert client.handshake.accept_outputs
    assert client.stub.GetPluginInfo(empty_pb2.Empty()).version == "1.2.3"


def test_configuration_arrives_plain_and_is_never_logged(client: Client, boxes: Boxes) -> None:
    response = client.configure({"key": Secret("hunter2")})
    assert response.acceptSecrets
    assert response.supportsPreview
    assert boxes.config == {"key": "hunter2"}
    assert [line.message for line in client.engine.lines] == ["configured with [secret]"]


def test_check_fills_in_and_tells_all_failures_with_their_paths(client: Client) -> None:
    good = client.check(BOX, "b", {"name": "b"})
    assert not good.failures
    assert good.inputs.fields["width"].number_value == 1
    bad = client.check(BOX, "b", {"depth": 1, "colour": "red"})
    assert [failure.reason for failure in bad.failures] == [
        "colour: boxes have no such side",
        "depth: boxes have no such side",
    ]


def test_the_life_of_a_box(client: Client, boxes: Boxes) -> None:
    inputs: dict[str, Value] = {"name": "b", "width": 2, "pin": Secret("1234")}
    resource_id, outputs = client.create(BOX, "b", inputs)
    assert resource_id == "b"
    assert outputs == {"name": "b", "width": 2, "pin": Secret("1234"), "url": "https://boxes/1"}
    assert client.read(BOX, "b", "b") is not None
    changes = client.diff(BOX, "b", "b", old_inputs=inputs, olds=outputs, news={**inputs, "name": "c", "width": 3})
    assert changes == {"name": "UPDATE_REPLACE", "width": "UPDATE"}
    client.update(BOX, "b", "b", old_inputs=inputs, olds=outputs, news=inputs)
    assert Line("INFO", "painting b", client.urn(BOX, "b"), ephemeral=True) in client.engine.lines
    client.delete(BOX, "b", "b", old_inputs=inputs, olds=outputs)
    assert client.read(BOX, "b", "b") is None
    assert not boxes.boxes


def test_a_preview_may_know_less(client: Client, boxes: Boxes) -> None:
    resource_id, outputs = client.create(BOX, "b", {"name": "b"}, preview=True)
    assert resource_id == ""
    assert has_unknown(outputs["url"])
    assert not boxes.boxes


def test_a_refusal_keeps_its_reason_and_loses_its_secrets(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.create(BOX, "b", {"name": "refused", "pin": Secret("98761234")})
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == "box refused: pin [secret] is taken (https://boxes/1)"


def test_a_bug_is_told_without_secrets(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.create(BOX, "b", {"name": "broken", "pin": Secret("98761234")})
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "a bug in boxes: ZeroDivisionError: no way with [secret]"
    assert "Traceback" in client.engine.text("DEBUG")
    assert "98761234" not in client.engine.text()


def test_a_partial_failure_carries_what_exists(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.create(BOX, "b", {"name": "half", "pin": Secret("98761234")})
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.id == "half"
    assert partial.outputs == {"name": "half", "pin": Secret("98761234")}
    assert partial.reasons == ["the lid is missing: https://boxes/half"]


def test_an_unknown_kind_is_named(client: Client) -> None:
    with pytest.raises(grpc.RpcError, match="boxes has no resource boxes:index:Crate"):
        client.check("boxes:index:Crate", "c", {})


def test_cancel_wakes_waiters_gives_up_on_the_rest_and_lets_nothing_new_in(client: Client, boxes: Boxes) -> None:
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(client.create, BOX, "slow", {"name": "slow"})
        patient = pool.submit(client.create, BOX, "patient", {"name": "patient"})
        time.sleep(0.3)
        client.cancel()
        client.cancel()
        with pytest.raises(grpc.RpcError, match="cancelled") as woken:
            patient.result(10)
        with pytest.raises(grpc.RpcError, match=r"gave up 0\.5 s after the cancel") as given_up:
            slow.result(10)
        with pytest.raises(grpc.RpcError, match="before late was begun") as late:
            client.create(BOX, "late", {"name": "late"})
    boxes.hold.set()
    assert {error.value.code() for error in (woken, given_up, late)} == {grpc.StatusCode.CANCELLED}
    assert boxes.cancels == 1
    assert "late" not in boxes.boxes


def test_a_time_limit_of_the_program_is_kept(client: Client, boxes: Boxes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.create(BOX, "slow", {"name": "slow"}, limit=0.3)
    boxes.hold.set()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert caught.value.details() == "not done within 0.3 s; the next run finds out what was done"


def test_many_calls_run_at_once(client: Client, boxes: Boxes) -> None:
    with ThreadPoolExecutor(100) as pool:
        waiting = [pool.submit(client.create, BOX, f"slow{n}", {"name": "slow"}) for n in range(60)]
        deadline = time.monotonic() + 20
        while sum("call" in thread.name for thread in threading.enumerate()) < 60 and time.monotonic() < deadline:
            time.sleep(0.05)
        quick = client.create(BOX, "quick", {"name": "quick"})
        boxes.hold.set()
        assert quick[0] == "quick"
        assert {call.result()[0] for call in waiting} == {"slow"}
