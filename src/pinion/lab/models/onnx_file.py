"""The same model as ONNX: one graph from tokens to logits, the vocabulary in the file's metadata."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from pinion.lab.models.network import Network, rotations
from pinion.services.onnx_model_server.tokenizer import Tokenizer

#: ONNX 1.13's operators: what ONNX Runtime has had since 1.14.
_OPSET, _IR = 18, 8


class _Graph:
    """A graph that grows node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray) -> str:
        """A constant called *name*."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: int | list[int]) -> str:
        """A node of *kind*; the name of its output, or the names divided by spaces."""
        base = f"{kind.lower()}_{len(self.nodes)}"
        names = [base] if outputs == 1 else [f"{base}_{at}" for at in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, name=base)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return " ".join(names)


def write_onnx(path: Path, name: str, network: Network, tokenizer: Tokenizer) -> None:
    """Write *network* with its vocabulary to *path*: input ``tokens`` (B, T) of int64, output ``logits`` (B, T, V) of float32.

    A token sees those before it only, so rows of several lengths may be filled up at their ends.
    """
    shape, graph = network.shape, _Graph()
    weights = {ours: graph.constant(ours, value) for ours, value in network.weights.items()}
    cosines, sines = rotations(shape, shape.context)
    graph.constant("one", np.array(1, np.int64))
    graph.constant("zero", np.array(0, np.int64))
    # Reshape's 0 keeps the length that is there: of the batch.
    graph.constant("halves", np.array([0, -1, shape.heads, shape.head_width // 2, 2], np.int64))
    graph.constant("heads", np.array([0, -1, shape.heads, shape.head_width], np.int64))
    graph.constant("whole", np.array([0, -1, shape.width], np.int64))
    graph.constant("last_axis", np.array([-1], np.int64))
    graph.constant("epsilon", np.array(shape.epsilon, np.float32))
    graph.constant("two", np.array(2, np.float32))
    graph.constant("scale", np.array(shape.head_width**-0.5, np.float32))
    graph.constant("never", np.array(-1e9, np.float32))
    graph.constant("cosines", cosines[None, :, None, :, None])
    graph.constant("sines", sines[None, :, None, :, None])
    length = graph.add("Gather", graph.add("Shape", "tokens"), "one")
    places = graph.add("Range", "zero", length, "one")
    turn = graph.add("Gather", "cosines", places, axis=1), graph.add("Gather", "sines", places, axis=1)
    rows = graph.add("Unsqueeze", places, "last_axis")
    columns = graph.add("Unsqueeze", places, graph.constant("first_axis", np.array([0], np.int64)))
    future = graph.add("Cast", graph.add("Greater", columns, rows), to=TensorProto.FLOAT)
    future = graph.add("Mul", future, "never")
    stream = graph.add("Gather", weights["embedding"], "tokens")
    for layer in range(shape.layers):
        stream = _layer(graph, weights, layer, stream, turn, future)
    stream = _normed(graph, stream, weights["norm"])
    columns = graph.add("Transpose", weights["embedding"], perm=[1, 0])
    graph.nodes.append(helper.make_node("MatMul", [stream, columns], ["logits"], name="logits"))
    made = helper.make_graph(
        graph.nodes,
        name,
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", shape.vocabulary])],
        graph.constants,
    )
    model = helper.make_model(
        made, producer_name="pinion", ir_version=_IR, opset_imports=[helper.make_opsetid("", _OPSET)]
    )
    helper.set_model_props(
        model, {"name": name, "context": str(shape.context), "pieces": json.dumps(list(tokenizer.pieces))}
    )
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _normed(graph: _Graph, stream: str, scale: str) -> str:
    mean = graph.add("ReduceMean", graph.add("Pow", stream, "two"), "last_axis", keepdims=1)
    root = graph.add("Sqrt", graph.add("Add", mean, "epsilon"))
    return graph.add("Mul", graph.add("Div", stream, root), scale)


def _turned(graph: _Graph, stream: str, turn: tuple[str, str]) -> str:
    """(B, T, D) to (B, T, H, E), every pair of neighbours turned by its position's angle."""
    pairs = graph.add("Reshape", stream, "halves")
    even, odd = graph.add("Split", pairs, outputs=2, axis=-1, num_outputs=2).split()
    cosines, sines = turn
    first = graph.add("Sub", graph.add("Mul", even, cosines), graph.add("Mul", odd, sines))
    second = graph.add("Add", graph.add("Mul", even, sines), graph.add("Mul", odd, cosines))
    return graph.add("Reshape", graph.add("Concat", first, second, axis=-1), "heads")


def _layer(graph: _Graph, weights: dict[str, str], layer: int, stream: str, turn: tuple[str, str], future: str) -> str:
    def projected(source: str, name: str) -> str:
        return graph.add("MatMul", source, weights[f"{layer}.{name}"])

    first = _normed(graph, stream, weights[f"{layer}.attention_norm"])
    query = graph.add("Transpose", _turned(graph, projected(first, "query"), turn), perm=[0, 2, 1, 3])
    key = graph.add("Transpose", _turned(graph, projected(first, "key"), turn), perm=[0, 2, 3, 1])
    value = graph.add("Transpose", graph.add("Reshape", projected(first, "value"), "heads"), perm=[0, 2, 1, 3])
    scores = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), "scale"), future)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), "whole")
    stream = graph.add("Add", stream, projected(mixed, "output"))
    second = _normed(graph, stream, weights[f"{layer}.feed_norm"])
    gate = projected(second, "gate")
    inside = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), projected(second, "up"))
    return graph.add("Add", stream, projected(inside, "down"))
