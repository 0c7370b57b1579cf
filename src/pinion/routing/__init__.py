"""How a request is routed: to the Pi that it came to, to the pool, to both, or to none, with the reasons.

Invariants:

* `decide` is pure and total: no I/O, no clock, no randomness, no exception for any numbers; the same inputs give the same decision.
* The simulator runs this same function. Nothing here knows of site files, plans or services.
* What is not a number from 0 up (NaN, negative, unknown) counts as the worst that it could be.
* `decide` imports the standard library only; `record` and `document`, off the path of a request, check with pydantic.
"""

from __future__ import annotations

from pinion.routing.decision import Decision, Reason, Route, decide
from pinion.routing.inputs import Hop, PiModel, PiState, PoolState, Request, State
from pinion.routing.policy import Hint, Kind, Mode, ModelForms, Objectives, Privacy, RoutingPolicy

__all__ = [
    "Decision",
    "Hint",
    "Hop",
    "Kind",
    "Mode",
    "ModelForms",
    "Objectives",
    "PiModel",
    "PiState",
    "PoolState",
    "Privacy",
    "Reason",
    "Request",
    "Route",
    "RoutingPolicy",
    "State",
    "decide",
]
