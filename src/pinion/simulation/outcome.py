"""What came of a simulation, request by request."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from pinion.routing.decision import Route


@dataclass(slots=True)
class Outcome:
    """What came of it. Times in seconds from arrival, by the place that answered.

    *doubtful* counts answers made on a Pi alone although their confidence is below the policy's, *handed_over* those that a Pi had begun,
    *fallbacks* the times that the pool failed a request. *gpu_seconds* is what finished work used of GPUs.
    """

    first_tokens: dict[Route, array[float]] = field(default_factory=lambda: {route: array("d") for route in Route})
    answers: dict[Route, array[float]] = field(default_factory=lambda: {route: array("d") for route in Route})
    refused: int = 0
    degraded: int = 0
    doubtful: int = 0
    fallbacks: int = 0
    handed_over: int = 0
    gpu_seconds: float = 0.0
    pool_tokens: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    end: float = 0.0
