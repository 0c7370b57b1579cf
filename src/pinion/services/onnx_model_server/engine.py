"""One model, loaded into ONNX Runtime: tokens and their probabilities, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
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
        random = np.random.Generator(np.random.PCG64(request.seed))
        tokens, steps = list(request.prompt), list[Step]()
        while len(steps) < request.length and len(tokens) < self.context and not given_up():
            (logits,) = self._session.run(["logits"], {"tokens": np.array([tokens], np.int64)})
            chances = _log_chances(logits[0, -1])
            if request.temperature > 0:
                scaled = np.exp(_log_chances(chances / request.temperature))
                token = int(random.choice(len(scaled), p=scaled / scaled.sum()))
            else:
                token = int(chances.argmax())
            first = np.argsort(-chances, kind="stable")[: request.likeliest]
            likeliest = tuple((int(other), float(chances[other])) for other in first)
            steps.append(Step(token, float(chances[token]), likeliest))
            if token == END:
                break
            tokens.append(token)
        return steps


def _log_chances(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))
