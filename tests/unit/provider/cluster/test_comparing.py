"""Stated properties against a live object."""

from __future__ import annotations

import pytest

from pinion.provider.cluster.comparing import as_live, imported_inputs, live_inputs, without_nulls
from pinion.provider.plugin import UNKNOWN, Secret, Value


@pytest.mark.parametrize(
    ("stated", "live", "seen"),
    [
        (1, 2, 2),
        ({"a": 1}, {"a": 1, "theirs": 2}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}),
        ({"a": {}}, {}, {"a": {}}),
        ({"a": []}, {}, {"a": []}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
        ([{"a": 1}], [{"a": 1, "defaulted": True}], [{"a": 1}]),
        ([{"a": 1}], [{"a": 1}, {"b": 2}], [{"a": 1}, {"b": 2}]),
        ([{"a": 1}, {"b": 2}], [{"a": 1}], [{"a": 1}]),
        ([1], "text", "text"),
        (Secret("x"), "y", Secret("y")),
        ({"a": Secret("x")}, {"a": "y"}, {"a": Secret("y")}),
        (UNKNOWN, "y", UNKNOWN),
        (False, True, True),
    ],
)
def test_as_live(stated: Value, live: Value, seen: Value) -> None:
    assert as_live(stated, live) == seen


def test_texts_of_a_secret_are_read_from_its_data() -> None:
    stated = {"stringData": Secret({"a": "x", "b": "y", "gone": "z"})}
    live = {"data": {"a": "eA==", "b": "bmV3", "theirs": "eA=="}}
    assert live_inputs(stated, live) == {"stringData": Secret({"a": "x", "b": "new"})}
    assert live_inputs({"stringData": {"a": Secret("x"), "b": "y"}}, live) == {
        "stringData": {"a": Secret("x"), "b": "new"}
    }


def test_binary_data_is_no_text() -> None:
    assert live_inputs({"stringData": {"a": "x"}}, {"data": {"a": "/w=="}}) == {"stringData": {"a": ""}}


def test_import_leaves_out_what_only_the_server_writes() -> None:
    live: dict[str, Value] = {
        "kind": "ConfigMap",
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
        "data": {"a": "1"},
        "status": {},
    }
    assert imported_inputs(live) == {
        "kind": "ConfigMap",
        "metadata": {"name": "n", "labels": {"a": "b"}},
        "data": {"a": "1"},
    }


def test_null_is_not_stated() -> None:
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}], "e": Secret({"f": None})}) == {
        "b": [{"d": 1}],
        "e": Secret({}),
    }
