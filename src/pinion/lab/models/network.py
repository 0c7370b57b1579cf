"""The model's network, forward and backward, in plain numpy: a decoder of the Llama kind (RMS norm, rotary positions, SwiGLU).

Shapes: B sequences of T tokens, width D, H heads of width E (D = H * E), F inside the feed-forward part, vocabulary V.
The output weights are the embeddings themselves (tied). Numbers are float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
Weights = dict[str, Floats]


@dataclass(frozen=True)
class Shape:
    """The network's dimensions. *epsilon* is that of the norms, *rope_base* that of the rotary positions (both as Llama 2 has them)."""

    vocabulary: int
    width: int = 128
    layers: int = 2
    heads: int = 4
    feed_forward: int = 352
    context: int = 256
    epsilon: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_width(self) -> int:
        """The width of one head."""
        return self.width // self.heads


def initial(shape: Shape, random: np.random.Generator) -> Weights:
    """Weights before the first step; what adds to the stream of the layers starts smaller the deeper the network is."""

    def normal(rows: int, columns: int, scale: float) -> Floats:
        return (random.standard_normal((rows, columns)) * scale).astype(np.float32)

    width, inner = shape.width, shape.feed_forward
    into, out = width**-0.5, (2 * shape.layers) ** -0.5
    weights = {"embedding": normal(shape.vocabulary, width, 0.05), "norm": np.ones(width, np.float32)}
    for layer in range(shape.layers):
        weights |= {
            f"{layer}.attention_norm": np.ones(width, np.float32),
            f"{layer}.query": normal(width, width, into),
            f"{layer}.key": normal(width, width, into),
            f"{layer}.value": normal(width, width, into),
            f"{layer}.output": normal(width, width, into * out),
            f"{layer}.feed_norm": np.ones(width, np.float32),
            f"{layer}.gate": normal(width, inner, into),
            f"{layer}.up": normal(width, inner, into),
            f"{layer}.down": normal(inner, width, inner**-0.5 * out),
        }
    return weights


def rotations(shape: Shape, length: int) -> tuple[Floats, Floats]:
    """Cosines and sines of the rotary positions, (T, E/2): pair i of a head turns by position * base^(-2i/E)."""
    speeds = shape.rope_base ** (-np.arange(0, shape.head_width, 2, dtype=np.float64) / shape.head_width)
    angles = np.arange(length, dtype=np.float64)[:, None] * speeds[None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _turned(heads: Floats, cosines: Floats, sines: Floats) -> Floats:
    """*heads* (B, H, T, E) with every pair of neighbours turned by its position's angle."""
    turned = np.empty_like(heads)
    even, odd = heads[..., 0::2], heads[..., 1::2]
    turned[..., 0::2] = even * cosines - odd * sines
    turned[..., 1::2] = even * sines + odd * cosines
    return turned


def _normed(stream: Floats, scale: Floats, epsilon: float) -> tuple[Floats, Floats, Floats]:
    inverse = 1 / np.sqrt(np.mean(np.square(stream), axis=-1, keepdims=True) + np.float32(epsilon))
    unit = stream * inverse
    return unit * scale, unit, inverse


def _normed_back(given: Floats, scale: Floats, unit: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """Gradients of a norm's input and scale from that of its output."""
    into = given * scale
    stream = inverse * (into - unit * np.mean(into * unit, axis=-1, keepdims=True))
    return stream, np.einsum("btd,btd->d", given, unit)


def _softmax(scores: Floats) -> Floats:
    scores = scores - scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


class Network:
    """The network with its *weights*."""

    def __init__(self, shape: Shape, weights: Weights) -> None:
        self.shape, self.weights = shape, weights

    def logits(self, tokens: Tokens) -> Floats:
        """Logits (B, T, V) of the token after each of *tokens* (B, T)."""
        return self._forward(tokens)[0]

    def loss(self, tokens: Tokens, following: Tokens) -> tuple[float, Weights]:
        """The mean cross-entropy of *following* (B, T) after *tokens*, in nats, and its gradients."""
        logits, kept = self._forward(tokens)
        chances = _softmax(logits)
        picked = np.take_along_axis(chances, following[..., None], axis=-1)
        loss = float(-np.log(picked + 1e-30).mean())
        np.put_along_axis(chances, following[..., None], picked - 1, axis=-1)
        chances /= following.size
        return loss, self._backward(tokens, chances, kept)

    def _split(self, stream: Floats) -> Floats:
        batch, length, _ = stream.shape
        return np.ascontiguousarray(
            stream.reshape(batch, length, self.shape.heads, self.shape.head_width).transpose(0, 2, 1, 3)
        )

    @staticmethod
    def _joined(heads: Floats) -> Floats:
        batch, count, length, width = heads.shape
        return heads.transpose(0, 2, 1, 3).reshape(batch, length, count * width)

    def _forward(self, tokens: Tokens) -> tuple[Floats, list[Any]]:
        weights, shape = self.weights, self.shape
        length = tokens.shape[1]
        cosines, sines = rotations(shape, length)
        future = np.triu(np.full((length, length), -1e9, np.float32), 1)
        scale = np.float32(shape.head_width**-0.5)
        stream = weights["embedding"][tokens]
        kept: list[Any] = []
        for layer in range(shape.layers):
            first = _normed(stream, weights[f"{layer}.attention_norm"], shape.epsilon)
            query = _turned(self._split(first[0] @ weights[f"{layer}.query"]), cosines, sines)
            key = _turned(self._split(first[0] @ weights[f"{layer}.key"]), cosines, sines)
            value = self._split(first[0] @ weights[f"{layer}.value"])
            attention = _softmax(query @ key.swapaxes(-1, -2) * scale + future)
            mixed = self._joined(attention @ value)
            stream = stream + mixed @ weights[f"{layer}.output"]
            second = _normed(stream, weights[f"{layer}.feed_norm"], shape.epsilon)
            gate, up = second[0] @ weights[f"{layer}.gate"], second[0] @ weights[f"{layer}.up"]
            sigmoid = 1 / (1 + np.exp(-gate))
            inside = gate * sigmoid * up
            stream = stream + inside @ weights[f"{layer}.down"]
            kept.append((first, query, key, value, attention, mixed, second, gate, up, sigmoid, inside))
        last = _normed(stream, weights["norm"], shape.epsilon)
        kept.append((last, cosines, sines, scale))
        return last[0] @ weights["embedding"].T, kept

    def _backward(self, tokens: Tokens, given: Floats, kept: list[Any]) -> Weights:
        weights, shape = self.weights, self.shape
        last, cosines, sines, scale = kept[-1]
        grads: Weights = {"embedding": _outer(given, last[0])}
        stream, grads["norm"] = _normed_back(given @ weights["embedding"], weights["norm"], last[1], last[2])
        for layer in reversed(range(shape.layers)):
            first, query, key, value, attention, mixed, second, gate, up, sigmoid, inside = kept[layer]
            grads[f"{layer}.down"] = _outer(inside, stream)
            into = stream @ weights[f"{layer}.down"].T
            to_up = into * gate * sigmoid
            to_gate = into * up * sigmoid * (1 + gate * (1 - sigmoid))
            grads[f"{layer}.up"], grads[f"{layer}.gate"] = _outer(second[0], to_up), _outer(second[0], to_gate)
            back = to_up @ weights[f"{layer}.up"].T + to_gate @ weights[f"{layer}.gate"].T
            added, grads[f"{layer}.feed_norm"] = _normed_back(back, weights[f"{layer}.feed_norm"], second[1], second[2])
            stream = stream + added
            grads[f"{layer}.output"] = _outer(mixed, stream)
            to_mixed = self._split(stream @ weights[f"{layer}.output"].T)
            to_attention = to_mixed @ value.swapaxes(-1, -2)
            to_scores = attention * (to_attention - np.sum(to_attention * attention, axis=-1, keepdims=True)) * scale
            parts = {
                "query": self._joined(_turned(to_scores @ key, cosines, -sines)),
                "key": self._joined(_turned(to_scores.swapaxes(-1, -2) @ query, cosines, -sines)),
                "value": self._joined(attention.swapaxes(-1, -2) @ to_mixed),
            }
            back = np.zeros_like(stream)
            for name, part in parts.items():
                grads[f"{layer}.{name}"] = _outer(first[0], part)
                back += part @ weights[f"{layer}.{name}"].T
            added, grads[f"{layer}.attention_norm"] = _normed_back(
                back, weights[f"{layer}.attention_norm"], first[1], first[2]
            )
            stream = stream + added
        np.add.at(grads["embedding"], tokens, stream)
        return grads


def _outer(left: Floats, right: Floats) -> Floats:
    """The gradient of a matrix: *left* (B, T, M) and *right* (B, T, N) to (M, N)."""
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])
