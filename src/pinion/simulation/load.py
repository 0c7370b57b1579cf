"""Requests in the order of their arrival: made from a seed, or read from a trace."""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from pinion.routing.inputs import Request
from pinion.routing.policy import Hint, Kind, Mode, Privacy, RoutingPolicy
from pinion.simulation.scenario import KindOfLoad, Load, Tokens
from pinion.site.statement import Statement

#: The standard normal quantile of 0.95.
_Z95 = 1.6448536269514722


@dataclass(slots=True)
class Arrival:
    """A request that comes to Pi number *pi*, *at* seconds from the start. *confidence* is that of the Pi's answer, None for unknown."""

    at: float
    pi: int
    request: Request
    confidence: float | None


def _lognormal(tokens: Tokens) -> tuple[float, float]:
    """Its parameters mu and sigma."""
    mu = math.log(tokens.median)
    return mu, max(0.0, (math.log(tokens.p95) - mu) / _Z95)


def mean_answer(load: Load) -> float:
    """Tokens of an answer, on average over all requests of *load*."""
    means = []
    for kind in load.kinds:
        mu, sigma = _lognormal(kind.answer)
        means.append(kind.share * math.exp(mu + sigma * sigma / 2))
    return sum(means)


def peak(load: Load) -> float:
    """The highest rate of *load*, in requests a second."""
    return load.rate * (load.bursts.factor if load.bursts is not None else 1.0)


def rate_at(load: Load, at: float) -> float:
    """Requests a second, *at* seconds from the start."""
    rate = load.rate
    if load.diurnal is not None:
        low = load.diurnal.trough
        rate *= low + (1 - low) * (1 - math.cos(2 * math.pi * at / load.diurnal.period)) / 2
    if load.bursts is not None and at % load.bursts.every < load.bursts.length:
        rate *= load.bursts.factor
    return rate


def synthetic(load: Load, duration: float, pis: int, policy: RoutingPolicy, seed: int) -> Iterator[Arrival]:
    """A Poisson process whose rate may change with time (thinned: Lewis and Shedler, 1979), over *pis* Pis alike.

    A request of a mode that decides once has an estimate of its confidence before it starts; in `early-exit` the runtime reports it.
    """
    chance = random.Random(seed)
    draw = [_Draw(kind, policy) for kind in load.kinds]
    shares = list(accumulate(kind.share for kind in load.kinds))
    most, steady = peak(load), load.bursts is None and load.diurnal is None
    at, uniform, gap = 0.0, chance.random, chance.expovariate
    while (at := at + gap(most)) < duration:
        if steady or uniform() * most < rate_at(load, at):
            kind = draw[min(bisect(shares, uniform()), len(draw) - 1)]
            yield kind.arrival(at, int(uniform() * pis), chance)


class _Draw:
    """Requests of one kind of load."""

    def __init__(self, kind: KindOfLoad, policy: RoutingPolicy) -> None:
        self._kind, self._threshold = kind, policy.confidence
        self._prompt, self._answer = _lognormal(kind.prompt), _lognormal(kind.answer)
        self._reported = (kind.mode or policy.mode) is Mode.EARLY_EXIT

    def arrival(self, at: float, pi: int, chance: random.Random) -> Arrival:
        kind, normal = self._kind, chance.gauss
        prompt = int(math.exp(normal(*self._prompt))) or 1
        answer = int(math.exp(normal(*self._answer))) or 1
        low = chance.random() < kind.hard
        confidence = chance.random() * (self._threshold if low else 1 - self._threshold)
        if not low:
            confidence += self._threshold
        request = Request(
            prompt,
            answer,
            kind.model,
            kind.kind,
            kind.hint,
            kind.privacy,
            kind.mode,
            None if self._reported else confidence,
            kind.deadline,
            kind.consent,
        )
        return Arrival(at, pi, request, confidence)


# --- a trace ----------------------------------------------------------------------------------------------------------


class TraceLine(Statement):
    """One line of a trace: a request that came *at* seconds from its start to *pi* (unstated: to each Pi in turn)."""

    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    prompt_tokens: Annotated[int, Field(ge=1)]
    answer_tokens: Annotated[int, Field(ge=1)]
    pi: str | None = None
    model: str = ""
    kind: Kind = Kind.CHAT
    hint: Hint = Hint.NONE
    privacy: Privacy = Privacy.ANY
    mode: Mode | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    deadline: Annotated[float, Field(ge=0)] | None = None
    consent: bool = True
    budget: Annotated[float, Field(ge=0)] | None = None


class TraceError(ValueError):
    """What is wrong with a trace: file, line, key and fix."""


_LINE: TypeAdapter[TraceLine] = TypeAdapter(TraceLine)


def trace(path: Path, names: Sequence[str], policy: RoutingPolicy) -> Iterator[Arrival]:
    """The requests of the trace *path*, one JSON object a line in order of time, for Pis called *names*.

    Raises `TraceError` at the first line that is wrong, and `OSError` of the file.
    """
    numbers = {name: number for number, name in enumerate(names)}
    last = 0.0
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            line = _line(text, f"{path}:{number}")
            if line.at < last:
                raise TraceError(f"{path}:{number} at: {line.at:g} is before {last:g}; sort the lines by at")
            if line.pi is not None and line.pi not in numbers:
                raise TraceError(
                    f"{path}:{number} pi: no Pi is called '{line.pi[:80]}'; there are {names[0]} to {names[-1]}"
                )
            last = line.at
            pi = numbers[line.pi] if line.pi is not None else number % len(names)
            yield Arrival(line.at, pi, _request(line, policy), line.confidence)


def _line(text: bytes, place: str) -> TraceLine:
    try:
        return _LINE.validate_json(text)
    except ValidationError as wrong:
        error = wrong.errors()[0]
        key = ".".join(map(str, error["loc"])) or "the line"
        raise TraceError(f"{place} {key}: {error['msg']}") from None


def _request(line: TraceLine, policy: RoutingPolicy) -> Request:
    reported = (line.mode or policy.mode) is Mode.EARLY_EXIT
    stated = {name: getattr(line, name) for name in TraceLine.model_fields if name not in {"at", "pi", "confidence"}}
    return Request(**stated, confidence=None if reported else line.confidence)
