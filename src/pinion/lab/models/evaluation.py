"""How good the model is, in perplexity on text that it never saw, and what it answers to one fixed prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pinion.lab.models.network import Floats, Network, Tokens
from pinion.services.onnx_model_server.tokenizer import BEGIN, Tokenizer

#: The prompt that engines are compared on, and how far they go on.
PROMPT, LENGTH = "The concern that keeps the ", 24


@dataclass(frozen=True)
class Perplexity:
    """e to the mean surprise a token, of *tokens* tokens: by the model, by token frequencies alone, by chance."""

    tokens: int
    model: float
    unigram: float
    uniform: float


def rows(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    """Each paragraph's tokens, after the one for a beginning."""
    return [[BEGIN, *tokenizer.encode(line)] for line in text.splitlines(keepends=True)]


def log_chances(logits: Floats) -> np.ndarray:
    """Natural logarithms of the tokens' probabilities, in float64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True)))


def perplexity(network: Network, training: Tokens, held_out: list[list[int]]) -> Perplexity:
    """Of *network* on *held_out*, each paragraph by itself and cut at the context; frequencies are *training*'s, plus one each."""
    size = network.shape.vocabulary
    seen = np.bincount(training, minlength=size).astype(np.float64) + 1
    frequencies = np.log(seen / seen.sum())
    surprise, alone, count = 0.0, 0.0, 0
    for row in held_out:
        tokens = np.array(row[: network.shape.context], np.int64)
        chances = log_chances(network.logits(tokens[None, :-1])[0])
        surprise -= float(chances[np.arange(len(tokens) - 1), tokens[1:]].sum())
        alone -= float(frequencies[tokens[1:]].sum())
        count += len(tokens) - 1
    return Perplexity(count, math.exp(surprise / count), math.exp(alone / count), float(size))


def greedy(network: Network, prompt: list[int], length: int) -> tuple[list[int], list[float]]:
    """The *length* likeliest tokens after *prompt*, one after the other, and the logarithms of their probabilities."""
    tokens, chances = list(prompt), []
    for _ in range(length):
        last = log_chances(network.logits(np.array([tokens], np.int64))[0, -1])
        tokens.append(int(last.argmax()))
        chances.append(float(last.max()))
    return tokens[len(prompt) :], chances
