"""How answers of Triton's model are made. Knows nothing of Triton, so it runs anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pinion.services.onnx_model_server.engine import Engine, Request, Step
from pinion.services.onnx_model_server.tokenizer import END
from pinion.services.triton_model.tensors import LENGTH, SEED, TEMPERATURE, TEXT

#: As onnx-model-server has them: OpenAI's default length and hottest temperature.
DEFAULT_LENGTH, HOTTEST = 16, 2.0


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


def answered(engine: Engine, batch: Sequence[Asked]) -> list[Answer | AskedError]:
    """What *engine* answers to each of *batch*, computed together; for one that cannot be answered, why."""
    requests = [_request(engine, asked) for asked in batch]
    good = [request for request in requests if isinstance(request, Request)]
    answers = iter(engine.answers(good) if good else ())
    return [request if isinstance(request, AskedError) else _answer(engine, next(answers)) for request in requests]


def _answer(engine: Engine, steps: Sequence[Step]) -> Answer:
    own = [step for step in steps if step.token != END]
    tokens = tuple(step.token for step in own)
    return Answer(engine.tokenizer.decode(tokens), tokens, tuple(step.log_probability for step in own))


def _request(engine: Engine, asked: Asked) -> Request | AskedError:
    try:
        prompt = engine.encode(asked.text.decode())
    except UnicodeDecodeError as error:
        return AskedError(f"{TEXT.name} is no UTF-8: {error.reason} at byte {error.start}")
    if len(prompt) >= engine.context:
        return AskedError(f"{TEXT.name} has {len(prompt)} tokens, the context {engine.context}")
    if not 0 <= asked.length <= engine.context:
        return AskedError(f"{LENGTH.name} must be a number from 0 to {engine.context}")
    if not math.isfinite(asked.temperature) or not 0 <= asked.temperature <= HOTTEST:
        return AskedError(f"{TEMPERATURE.name} must be a number from 0 to {HOTTEST:g}")
    if asked.seed < 0:
        return AskedError(f"{SEED.name} must not be negative")
    return Request(prompt, asked.length, asked.temperature, asked.seed)
