"""What Triton's model takes and gives, and how an answer is made of it. Knows nothing of Triton, so it runs anywhere.

Names of text and length are those of Triton's own language models (its generate extension: text_input, max_tokens, text_output).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pinion.services.onnx_model_server.engine import Engine, Request
from pinion.services.onnx_model_server.tokenizer import END

#: The model's file in its version's folder, and the parameter of its configuration: how many threads one answer may take.
MODEL_FILE, THREADS = "model.onnx", "threads"
#: As onnx-model-server has them: OpenAI's default length and hottest temperature.
DEFAULT_LENGTH, HOTTEST = 16, 2.0


class Kind(StrEnum):
    """Data types by Triton's names (model_config.proto)."""

    STRING = "TYPE_STRING"
    INT32 = "TYPE_INT32"
    INT64 = "TYPE_INT64"
    FP32 = "TYPE_FP32"


@dataclass(frozen=True)
class Tensor:
    """One input or output: *dims* are its whole shape, -1 for any length."""

    name: str
    kind: Kind
    dims: tuple[int, ...] = (1,)
    optional: bool = False


TEXT = Tensor("text_input", Kind.STRING)
LENGTH = Tensor("max_tokens", Kind.INT32, optional=True)
TEMPERATURE = Tensor("temperature", Kind.FP32, optional=True)
SEED = Tensor("seed", Kind.INT64, optional=True)
INPUTS = (TEXT, LENGTH, TEMPERATURE, SEED)

ANSWER = Tensor("text_output", Kind.STRING)
TOKENS = Tensor("tokens", Kind.INT64, (-1,))
LOG_PROBABILITIES = Tensor("log_probabilities", Kind.FP32, (-1,))
OUTPUTS = (ANSWER, TOKENS, LOG_PROBABILITIES)


class AskedError(Exception):
    """A request that cannot be answered; the text says what is wrong with it."""


@dataclass(frozen=True)
class Asked:
    """One request. *temperature* 0 takes the likeliest token each time; otherwise *seed* decides."""

    text: bytes
    length: int = DEFAULT_LENGTH
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """One answer: its text, its tokens, and the natural logarithms of their probabilities."""

    text: str
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]


def answered(engine: Engine, asked: Asked) -> Answer:
    """The answer of *engine*. Raises `AskedError`."""
    steps = [step for step in engine.answer(_request(engine, asked)) if step.token != END]
    tokens = tuple(step.token for step in steps)
    return Answer(engine.tokenizer.decode(tokens), tokens, tuple(step.log_probability for step in steps))


def _request(engine: Engine, asked: Asked) -> Request:
    try:
        prompt = engine.encode(asked.text.decode())
    except UnicodeDecodeError as error:
        raise AskedError(f"{TEXT.name} is no UTF-8: {error.reason} at byte {error.start}") from error
    if len(prompt) >= engine.context:
        raise AskedError(f"{TEXT.name} has {len(prompt)} tokens, the context {engine.context}")
    if not 0 <= asked.length <= engine.context:
        raise AskedError(f"{LENGTH.name} must be a number from 0 to {engine.context}")
    if not math.isfinite(asked.temperature) or not 0 <= asked.temperature <= HOTTEST:
        raise AskedError(f"{TEMPERATURE.name} must be a number from 0 to {HOTTEST:g}")
    if asked.seed < 0:
        raise AskedError(f"{SEED.name} must not be negative")
    return Request(prompt, asked.length, asked.temperature, asked.seed)
