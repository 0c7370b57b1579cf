"""Models and properties are two forms of one thing, and mistakes are told by property path."""

from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from pinion.provider.plugin import UNKNOWN, Failure, Secret, Value
from pinion.provider.shape import Shape, overlay


class Colour(Enum):
    RED = "red"


class Port(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    mtu: int | None = Field(default=None, ge=68)
    peer: str | None
    addresses: tuple[str, ...] = ()


class Rack(BaseModel):
    model_config = ConfigDict(extra="forbid")
    unit: int


class Box(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    colour: Colour = Colour.RED
    ports: tuple[Port, ...] = ()
    rack: Rack | None = None
    tags: tuple[str, ...] = ()


SHAPE = Shape(Box, {Port: "name"})


def test_named_things_become_an_object_and_defaults_are_left_out() -> None:
    box = Box(name="b", ports=(Port(name="eth0", mtu=1500, peer=None), Port(name="a/1", peer="x")), rack=Rack(unit=3))
    assert SHAPE.properties(box) == {
        "name": "b",
        "ports": {"eth0": {"mtu": 1500}, "a/1": {"peer": "x"}},
        "rack": {"unit": 3},
    }
    assert SHAPE.value(SHAPE.properties(box)) == box


ports = st.builds(
    Port,
    name=st.text("ab/.[]", min_size=1, max_size=4),
    mtu=st.none() | st.integers(68, 9999),
    peer=st.none() | st.text(max_size=3),
)
boxes = st.builds(
    Box,
    name=st.text(max_size=3),
    ports=st.lists(ports, max_size=4, unique_by=lambda port: port.name).map(tuple),
    rack=st.none() | st.builds(Rack, unit=st.integers(0, 9)),
    tags=st.lists(st.text(max_size=2), max_size=3).map(tuple),
)


@given(boxes)
def test_there_and_back(box: Box) -> None:
    properties = SHAPE.properties(box)
    assert SHAPE.value(properties) == box
    assert SHAPE.check(properties).inputs == properties
    assert not SHAPE.check(properties).failures


def test_every_mistake_is_told_at_once_by_its_path() -> None:
    news: dict[str, Value] = {
        "colour": "blue",
        "ports": {"eth0": {"mtu": 5}, "a/1": {"speed": 1, "addresses": [1]}},
        "rack": {},
        "weight": 2,
    }
    assert {failure.path: failure.reason for failure in SHAPE.check(news).failures} == {
        "colour": "Input should be 'red' (it is 'blue')",
        "name": "is missing",
        'ports["a/1"].addresses[0]': "Input should be a valid string (it is 1)",
        'ports["a/1"].speed': "there is no such property (it is 1)",
        "ports.eth0.mtu": "Input should be greater than or equal to 68 (it is 5)",
        "rack.unit": "is missing",
        "weight": "there is no such property (it is 2)",
    }


def test_what_a_preview_cannot_know_is_not_judged() -> None:
    news: dict[str, Value] = {"name": "b", "ports": {"eth0": {"mtu": UNKNOWN}}, "rack": UNKNOWN}
    checked = SHAPE.check(news)
    assert not checked.failures
    assert checked.inputs == news
    assert [failure.path for failure in SHAPE.check({**news, "tags": 1}).failures] == ["tags"]


def test_a_secret_stays_one_and_is_not_told() -> None:
    checked = SHAPE.check({"name": Secret("b"), "tags": ["x", Secret("y")]})
    assert checked.inputs == {"name": Secret("b"), "tags": Secret(["x", "y"])}
    wrong = SHAPE.check({"name": "b", "rack": {"unit": Secret("hunter2")}})
    assert [failure.path for failure in wrong.failures] == ["rack.unit"]
    assert "hunter2" not in wrong.failures[0].reason


def test_where_it_comes_from_is_kept_and_not_part_of_the_model() -> None:
    checked = SHAPE.check({"name": "b", "origin": "boxes.b"})
    assert checked.inputs == {"name": "b", "origin": "boxes.b"}
    assert SHAPE.value(checked.inputs) == Box(name="b")


def test_a_name_given_twice_must_be_the_same() -> None:
    assert not SHAPE.check({"name": "b", "ports": {"eth0": {"name": "eth0"}}}).failures
    twice = SHAPE.check({"name": "b", "ports": {"eth0": {"name": "eth1"}}})
    assert twice.failures == [
        Failure("ports.eth0.name", "contradicts the key 'eth0' that it stands under (it is 'eth1')")
    ]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], {"a": 1, "ports": {"eth0": {"mtu": 1500}, "gone": {}}}),
        ([["a"]], {"a": 2, "ports": {"eth0": {"mtu": 1500}, "gone": {}}}),
        ([["ports", "eth0", "mtu"]], {"a": 1, "ports": {"eth0": {"mtu": 9000}, "gone": {}}}),
        ([["ports", "gone"]], {"a": 1, "ports": {"eth0": {"mtu": 1500}}}),
        ([["ports", "more"]], {"a": 1, "ports": {"eth0": {"mtu": 1500}, "gone": {}, "more": {"mtu": 1}}}),
        ([[]], {"a": 2, "ports": {"eth0": {"mtu": 9000, "mac": "x"}, "more": {"mtu": 1}}}),
    ],
)
def test_only_what_a_driver_would_change_is_drift(changed: list[list[str]], expected: Value) -> None:
    wanted: Value = {"a": 1, "ports": {"eth0": {"mtu": 1500}, "gone": {}}}
    actual: Value = {"a": 2, "ports": {"eth0": {"mtu": 9000, "mac": "x"}, "more": {"mtu": 1}}}
    assert overlay(wanted, actual, changed) == expected
