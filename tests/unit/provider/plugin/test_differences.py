"""The detailed diff names every changed leaf, nothing else, by paths that Pulumi can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.provider.plugin import Secret, Value, differences, path_steps, property_path
from pinion.provider.plugin.differences import Kind, Step

_leaves = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"])
properties = st.dictionaries(
    st.sampled_from(["a", "b/c", "d"]),
    st.recursive(
        _leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c"]), inner, max_size=2),
        max_leaves=8,
    ),
    max_size=3,
)
_steps = st.lists(
    st.text(min_size=1, max_size=6).filter(lambda s: s != "*") | st.integers(0, 99), min_size=1, max_size=5
)


@given(_steps)
def test_a_path_can_be_read_back(steps: list[Step]) -> None:
    assert list(path_steps(property_path(steps))) == steps


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (("name",), "name"),
        (("interfaces", "eth0", "addresses", 0), "interfaces.eth0.addresses[0]"),
        (("interfaces", "Ethernet1/1", "mtu"), 'interfaces["Ethernet1/1"].mtu'),
        (("prefixes", "192.168.101.0/24"), 'prefixes["192.168.101.0/24"]'),
        (("labels", 'a"b\\c'), 'labels["a\\"b\\\\c"]'),
    ],
)
def test_paths_are_written_as_pulumi_does(steps: tuple[Step, ...], text: str) -> None:
    assert property_path(steps) == text


@pytest.mark.parametrize("text", ["a..b", "a[", 'a["b', "a[x]", "["])
def test_a_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a property path"):
        path_steps(text)


@given(properties)
def test_equal_means_no_difference(both: dict[str, Value]) -> None:
    assert not differences(both, both).changes


@given(properties, properties)
def test_the_way_back_is_the_inverse(one: dict[str, Value], other: dict[str, Value]) -> None:
    there, back = differences(one, other).changes, differences(other, one).changes
    inverse = {Kind.ADD: Kind.DELETE, Kind.DELETE: Kind.ADD, Kind.UPDATE: Kind.UPDATE}
    assert {path: inverse[kind] for path, kind in there.items()} == dict(back)


def test_each_leaf_is_named() -> None:
    old: dict[str, Value] = {
        "vid": 101,
        "tags": ["a", "b"],
        "ports": {"eth0": {"mtu": 1500}, "eth1": {"mtu": 1500}},
        "gone": 1,
    }
    new: dict[str, Value] = {"vid": 102, "tags": ["a", "c", "d"], "ports": {"eth0": {"mtu": 9000}, "eth2": {}}}
    assert differences(old, new).changes == {
        "gone": Kind.DELETE,
        "ports.eth0.mtu": Kind.UPDATE,
        "ports.eth1": Kind.DELETE,
        "ports.eth2": Kind.ADD,
        "tags[1]": Kind.UPDATE,
        "tags[2]": Kind.ADD,
        "vid": Kind.UPDATE,
    }


def test_replacing_paths_reach_down_and_up() -> None:
    old: dict[str, Value] = {"spec": {"selector": {"app": "a"}, "replicas": 1}}
    new: dict[str, Value] = {"spec": {"selector": {"app": "b"}, "replicas": 2}}
    assert differences(old, new, replace=["spec.selector"]).changes == {
        "spec.replicas": Kind.UPDATE,
        "spec.selector.app": Kind.UPDATE_REPLACE,
    }
    assert differences({}, new, replace=["*.selector"]).changes == {"spec": Kind.ADD_REPLACE}


def test_ignored_paths_are_left_out() -> None:
    old: dict[str, Value] = {"a": {"x": 1, "y": 1}, "b": 1}
    new: dict[str, Value] = {"a": {"x": 2, "y": 2}, "b": 2}
    assert set(differences(old, new, ignore=["a.x", "b"]).changes) == {"a.y"}


def test_secrecy_is_no_difference_and_true_is_not_one() -> None:
    assert not differences({"a": Secret("x")}, {"a": "x"}).changes
    assert differences({"a": 1}, {"a": True}).changes == {"a": Kind.UPDATE}
