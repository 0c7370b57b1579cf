"""Property values as Pulumi's protocol carries them, and as handlers see them.

Invariants:

* A handler sees JSON values, `Secret` and `UNKNOWN`, nothing else: signatures of the wire never leave this module.
* Decoding and encoding are inverse for every value that a handler may return.
* The text form of a `Secret` never shows what it holds.

The signature constants are those of Pulumi's wire protocol (``sdk/proto``, "signatures for special values").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from google.protobuf import struct_pb2

SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"
RESOURCE_SIGNATURE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
OUTPUT_SIGNATURE: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN_TEXTS: Final = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string, and any type
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)
UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class Unknown:
    """A value that a preview cannot know yet. There is one, `UNKNOWN`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that must not be shown: encrypted in the state, hidden in diffs."""

    value: Value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__


Value: TypeAlias = "bool | int | float | str | Secret | Unknown | Sequence[Value] | Mapping[str, Value] | None"
Properties: TypeAlias = Mapping[str, Value]


# --- from the wire ----------------------------------------------------------------------------------------------------


def decode(struct: struct_pb2.Struct | None) -> dict[str, Value]:
    """The properties that *struct* carries; empty for None."""
    if struct is None:
        return {}
    return {key: _decode(value) for key, value in struct.fields.items()}


def _decode(value: struct_pb2.Value) -> Value:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value in UNKNOWN_TEXTS else value.string_value
    if kind == "struct_value":
        return _decode_object(value.struct_value)
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    return None


def _decode_object(struct: struct_pb2.Struct) -> Value:
    fields = struct.fields
    if SIGNATURE not in fields:
        return {key: _decode(value) for key, value in fields.items()}
    signature = fields[SIGNATURE].string_value
    if signature == SECRET_SIGNATURE:
        return Secret(_decode(fields["value"]))
    if signature == OUTPUT_SIGNATURE:
        inner = _decode(fields["value"]) if "value" in fields else UNKNOWN
        return Secret(inner) if "secret" in fields and fields["secret"].bool_value else inner
    if signature == RESOURCE_SIGNATURE:
        return _decode(fields["id"]) if "id" in fields else _decode(fields["urn"])
    return {key: _decode(value) for key, value in fields.items()}  # assets and archives: as they are


# --- to the wire ------------------------------------------------------------------------------------------------------


def encode(properties: Properties) -> struct_pb2.Struct:
    """*properties* as the wire carries them."""
    struct = struct_pb2.Struct()
    _encode_object(properties, struct)
    return struct


def _encode_object(properties: Properties, struct: struct_pb2.Struct) -> None:
    fields = struct.fields
    for key, value in properties.items():
        _encode(value, fields[key])


def _encode(value: Value, target: struct_pb2.Value) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif isinstance(value, Secret):
        fields = target.struct_value.fields
        fields[SIGNATURE].string_value = SECRET_SIGNATURE
        _encode(value.value, fields["value"])
    elif isinstance(value, Unknown):
        target.string_value = UNKNOWN_TEXT
    elif isinstance(value, Mapping):
        target.struct_value.SetInParent()
        _encode_object(value, target.struct_value)
    elif isinstance(value, Sequence):
        target.list_value.SetInParent()
        for item in value:
            _encode(item, target.list_value.values.add())
    else:
        raise TypeError(f"a {type(value).__name__} is no property value")


# --- questions about values -------------------------------------------------------------------------------------------


def plain(value: Value) -> Value:
    """*value* with every `Secret` replaced by what it holds. `UNKNOWN` stays."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def plain_properties(properties: Properties) -> dict[str, Value]:
    """`plain` for a whole set of properties."""
    return {key: plain(item) for key, item in properties.items()}


def has_unknown(value: Value) -> bool:
    """Whether *value* holds something that this preview cannot know."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, Secret):
        return has_unknown(value.value)
    return any(has_unknown(item) for item in _inside(value))


def has_secret(value: Value) -> bool:
    """Whether *value* is or holds a `Secret`."""
    return isinstance(value, Secret) or any(has_secret(item) for item in _inside(value))


def secret_texts(value: Value, *, hidden: bool = False) -> Iterator[str]:
    """Every text inside a `Secret` of *value*: what must never appear in a log."""
    if isinstance(value, Secret):
        yield from secret_texts(value.value, hidden=True)
    elif isinstance(value, str):
        if hidden and value:
            yield value
    else:
        for item in _inside(value):
            yield from secret_texts(item, hidden=hidden)


def mark_like(outputs: Properties, inputs: Properties) -> dict[str, Value]:
    """*outputs* with every property secret that is one in *inputs*: objects are followed, a list is secret as a whole."""
    marked = dict(outputs)
    for key, source in inputs.items():
        if key not in marked:
            continue
        target = marked[key]
        if isinstance(source, Mapping) and isinstance(target, Mapping):
            marked[key] = mark_like(target, source)
        elif has_secret(source) and not isinstance(target, Secret):
            marked[key] = Secret(target)
    return marked


def _inside(value: Value) -> Iterator[Value]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from value
