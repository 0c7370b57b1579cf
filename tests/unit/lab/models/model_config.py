"""A reader of config.pbtxt that shares nothing with its writer: protocol buffers' own, on the fields of model_config.proto that we use."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, text_format

_FIELD = descriptor_pb2.FieldDescriptorProto
#: Message: field: number, type, whether it repeats. The text format does not need the numbers.
_MESSAGES = {
    "ModelInput": {
        "name": (1, "string", False), "data_type": (2, "DataType", False), "dims": (4, "int64", True), "optional": (8, "bool", False),
    },
    "ModelOutput": {"name": (1, "string", False), "data_type": (2, "DataType", False), "dims": (3, "int64", True)},
    "ModelInstanceGroup": {"kind": (4, "Kind", False), "count": (2, "int32", False)},
    "ModelDynamicBatching": {
        "preferred_batch_size": (1, "int32", True), "max_queue_delay_microseconds": (2, "uint64", False),
    },
    "ModelParameter": {"string_value": (1, "string", False)},
    "ParametersEntry": {"key": (1, "string", False), "value": (2, "ModelParameter", False)},
    "ModelConfig": {
        "name": (1, "string", False), "backend": (17, "string", False), "max_batch_size": (4, "int32", False),
        "input": (5, "ModelInput", True), "output": (6, "ModelOutput", True), "instance_group": (7, "ModelInstanceGroup", True),
        "dynamic_batching": (11, "ModelDynamicBatching", False), "parameters": (14, "ParametersEntry", True),
    },
}  # fmt: skip
_ENUMS = {
    "DataType": {
        "TYPE_INVALID": 0, "TYPE_INT32": 8, "TYPE_INT64": 9, "TYPE_FP32": 11, "TYPE_STRING": 13,
    },
    "Kind": {"KIND_AUTO": 0, "KIND_GPU": 1, "KIND_CPU": 2},
}  # fmt: skip
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "int64": _FIELD.TYPE_INT64,
    "uint64": _FIELD.TYPE_UINT64,
    "int32": _FIELD.TYPE_INT32,
    "bool": _FIELD.TYPE_BOOL,
}


def read(text: str) -> dict[str, Any]:
    """The configuration by field name. Raises `text_format.ParseError` for what is no such file."""
    message = message_factory.GetMessageClass(_pool().FindMessageTypeByName("inference.ModelConfig"))()
    text_format.Parse(text, message)
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    for tensor in (*found.get("input", ()), *found.get("output", ())):
        # JSON has no 64-bit integers
        tensor["dims"] = [int(length) for length in tensor["dims"]]
    found["parameters"] = {entry["key"]: entry["value"] for entry in found.get("parameters", ())}
    return found


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="model_config.proto", package="inference", syntax="proto3")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for label, number in values.items():
            enum.value.add(name=label, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for label, (number, kind, repeated) in fields.items():
            field = message.field.add(name=label, number=number)
            field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _FIELD.TYPE_ENUM if kind in _ENUMS else _FIELD.TYPE_MESSAGE
                field.type_name = f".inference.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
