"""What the policy is compared with: two simple ways to route, with the same signature as `decide`. Neither knows of privacy."""

from __future__ import annotations

import math

from pinion.routing.decision import Decision, Reason, Route, decide
from pinion.routing.inputs import Request, State
from pinion.routing.policy import RoutingPolicy
from pinion.simulation.engine import Decide


def all_pool(request: Request, state: State, policy: RoutingPolicy) -> Decision:
    """Everything goes to the pool, as to a cloud; to the Pi only what the pool does not serve, or while it is dead."""
    return _pool_if(Reason.POOL_ASKED_FOR, request, state, policy)


def static_thresholds(request: Request, state: State, policy: RoutingPolicy) -> Decision:
    """Fixed limits on the lengths of prompt and answer, and nothing else: no queue, no confidence, no prediction, no way."""
    if request.prompt_tokens > policy.prompt_tokens:
        return _pool_if(Reason.LONG_PROMPT, request, state, policy)
    if request.answer_tokens > policy.local_tokens:
        return _pool_if(Reason.LONG_ANSWER, request, state, policy)
    return _pool_if(None, request, state, policy)


def _pool_if(reason: Reason | None, request: Request, state: State, policy: RoutingPolicy) -> Decision:
    """The pool where there is a *reason* and it answers, else the Pi, where the Pi can, else whichever can."""
    model = request.model or policy.models[0].name
    pool = state.pool is not None and state.pool.healthy and model in state.pool.models
    on_pi = model in state.pi.models
    if pool and (reason is not None or not on_pi):
        return Decision(Route.POOL, (reason or Reason.NOT_ON_PI,), False, math.inf, policy.version)
    if on_pi:
        why = Reason.PI_FITS if reason is None else Reason.POOL_DOWN
        return Decision(Route.PI, (why,), reason is not None, math.inf, policy.version)
    return Decision(Route.NOWHERE, (Reason.NOT_ON_PI,), False, math.inf, policy.version)


#: The ways to route, by name. `policy` is the production code.
ROUTERS: dict[str, Decide] = {"policy": decide, "all-pool": all_pool, "static": static_thresholds}
