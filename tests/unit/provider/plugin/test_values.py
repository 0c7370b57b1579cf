"""Values survive the wire, unknowns and secrets are what they should be, and secrets don't show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pinion.provider.plugin.values import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SIGNATURE,
    UNKNOWN,
    UNKNOWN_TEXTS,
    Secret,
    Value,
    decode,
    encode,
    has_secret,
    has_unknown,
    mark_like,
    plain,
    secret_texts,
)

_texts = st.text(max_size=12).filter(lambda text: text not in UNKNOWN_TEXTS)
_keys = st.text(min_size=1, max_size=8).filter(lambda key: key != SIGNATURE)
_leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.just(0.5) | _texts | st.just(UNKNOWN)
values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4) | inner.map(Secret),
    max_leaves=20,
)


@given(st.dictionaries(_keys, values, max_size=5))
def test_what_goes_in_comes_out(properties: dict[str, Value]) -> None:
    assert decode(encode(properties)) == properties


@given(st.dictionaries(_keys, values, max_size=5))
def test_plain_leaves_no_secret(properties: dict[str, Value]) -> None:
    assert not has_secret(plain(properties))
    assert has_unknown(properties) == has_unknown(plain(properties))


def test_types_survive_the_wire() -> None:
    came = decode(encode({"yes": True, "one": 1, "half": 0.5}))
    assert came["yes"] is True
    assert type(came["one"]) is int
    assert came["half"] == 0.5


def test_wrapped_outputs_and_references_are_unwrapped() -> None:
    output: dict[str, Value] = {SIGNATURE: OUTPUT_SIGNATURE, "value": "v"}
    secret: dict[str, Value] = {SIGNATURE: OUTPUT_SIGNATURE, "value": "v", "secret": True}
    unknown: dict[str, Value] = {SIGNATURE: OUTPUT_SIGNATURE}
    reference: dict[str, Value] = {SIGNATURE: RESOURCE_SIGNATURE, "urn": "urn:…", "id": "lab/pi-01"}
    came = decode(encode({"output": output, "secret": secret, "unknown": unknown, "reference": reference}))
    assert came == {"output": "v", "secret": Secret("v"), "unknown": UNKNOWN, "reference": "lab/pi-01"}


def test_a_secret_does_not_show_its_value() -> None:
    secret = Secret({"password": "hunter2"})
    assert "hunter2" not in f"{secret!r} {secret} {[secret]} { ({'a': secret}) }"


def test_the_texts_of_a_secret_are_found_at_any_depth() -> None:
    properties: dict[str, Value] = {"a": Secret({"b": ["one", {"c": "two"}]}), "d": "open", "e": [Secret("three")]}
    assert set(secret_texts(properties)) == {"one", "two", "three"}


def test_outputs_are_as_secret_as_inputs() -> None:
    inputs: dict[str, Value] = {
        "a": Secret("x"),
        "b": {"c": Secret("y"), "d": 1},
        "e": [1, Secret("z")],
        "gone": Secret("w"),
    }
    outputs: dict[str, Value] = {"a": "x", "b": {"c": "y", "d": 1}, "e": [1, "z"], "own": "v"}
    assert mark_like(outputs, inputs) == {
        "a": Secret("x"),
        "b": {"c": Secret("y"), "d": 1},
        "e": Secret([1, "z"]),
        "own": "v",
    }
