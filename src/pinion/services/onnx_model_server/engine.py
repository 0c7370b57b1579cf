"""One model, loaded into ONNX Runtime: tokens and their probabilities, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from pinion.services.onnx_model_server.tokenizer import BEGIN, END, Tokenizer

#: What a file of ours says of itself, besides its name.
_FACTS = ("context", "pieces")


class ModelFileError(Exception):
    """The file is no model that this server can serve; the text says why."""


@dataclass(frozen=True)
class Step:
    """One token of an answer. *log_probability* is natural; *likeliest* are the tokens that came first, with theirs."""

    token: int
    log_probability: float
    likeliest: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Request:
    """What is asked. *temperature* 0 takes the likeliest token each time; otherwise *seed* decides."""

    prompt: tuple[int, ...]
    length: int
    temperature: float = 0.0
    seed: int = 0
    likeliest: int = 0


class Engine:
    """A model in memory. Calls may come from several threads; ONNX Runtime's session takes them."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        """Load *path*, computing with *threads* threads. Raises `ModelFileError`."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            facts = self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # the library publishes no common base of its exceptions
            raise ModelFileError(f"{path}: {str(error)[:300]}") from error
        missing = [name for name in _FACTS if name not in facts]
        if missing:
            raise ModelFileError(f"{path}: its metadata lack {', '.join(missing)}")
        try:
            self.tokenizer = Tokenizer(tuple(map(str, json.loads(facts["pieces"]))))
            self.context = int(facts["context"])
        except (ValueError, TypeError) as error:
            raise ModelFileError(f"{path}: its metadata are unreadable: {error}") from error
        self.name = facts.get("name", path.stem)

    def encode(self, text: str) -> tuple[int, ...]:
        """*text* as a prompt."""
        return (BEGIN, *self.tokenizer.encode(text))

    def answer(self, request: Request, given_up: Callable[[], bool] = lambda: False) -> list[Step]:
        """The steps after the prompt, until the end of a text, the asked length, or the context; or until *given_up* says so."""
        (steps,) = self.answers([request], given_up)
        return steps

    def answers(self, requests: Sequence[Request], given_up: Callable[[], bool] = lambda: False) -> list[list[Step]]:
        """The answers to *requests*, in order, each as `answer` has it: computed together, a step of all at a time."""
        rows = [_Row(request, self.context) for request in requests]
        while (running := [row for row in rows if not row.ended]) and not given_up():
            longest = max(len(row.tokens) for row in running)
            # What stands behind a row's own tokens is not seen from them.
            batch = np.array([row.tokens + [END] * (longest - len(row.tokens)) for row in running], np.int64)
            (logits,) = self._session.run(["logits"], {"tokens": batch})
            for row, found in zip(running, logits, strict=True):
                row.take(_log_chances(found[len(row.tokens) - 1]))
        return [row.steps for row in rows]


class _Row:
    """One request on its way. *tokens* are prompt and answer; *ended* says that nothing is to come."""

    def __init__(self, request: Request, context: int) -> None:
        self._request, self._context = request, context
        self._random = np.random.Generator(np.random.PCG64(request.seed))
        self.tokens, self.steps = list(request.prompt), list[Step]()
        self.ended = request.length < 1 or len(self.tokens) >= context

    def take(self, chances: np.ndarray) -> None:
        """The next step, of the logarithms of all tokens' probabilities."""
        asked = self._request
        if asked.temperature > 0:
            scaled = np.exp(_log_chances(chances / asked.temperature))
            token = int(self._random.choice(len(scaled), p=scaled / scaled.sum()))
        else:
            token = int(chances.argmax())
        first = np.argsort(-chances, kind="stable")[: asked.likeliest]
        likeliest = tuple((int(other), float(chances[other])) for other in first)
        self.steps.append(Step(token, float(chances[token]), likeliest))
        if token != END:
            self.tokens.append(token)
        self.ended = token == END or len(self.steps) >= asked.length or len(self.tokens) >= self._context


def _log_chances(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))
