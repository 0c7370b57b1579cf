"""`decide`: where one request is answered, and why. The order of the reasons is the order in which they count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from pinion.routing.inputs import PiState, Request, State
from pinion.routing.policy import STRICT, Hint, Kind, Mode, Privacy, RoutingPolicy

#: What a lost packet costs, in seconds: Linux waits at least this long before it sends again (TCP_RTO_MIN, include/net/tcp.h).
RETRANSMISSION = 0.2
#: Larger numbers count as infinite: no context is longer (tokens), nobody waits longer (seconds), and arithmetic stays that of floats.
_MOST = 1 << 30


class Route(StrEnum):
    """Where a request is answered."""

    PI = "pi"
    BOTH = "both"  #: the Pi drafts while the pool works
    POOL = "pool"
    NOWHERE = "nowhere"  #: refused: no place may answer it, or none can


class Reason(StrEnum):
    """Why. In this order they are looked at, and in this order they stand in a decision."""

    NOT_ON_PI = "not-on-pi"
    BEYOND_CONTEXT = "beyond-context"
    ON_DEVICE_ONLY = "on-device-only"
    ON_SITE_ONLY = "on-site-only"
    NO_CONSENT = "no-consent"
    NOT_IN_POOL = "not-in-pool"
    POOL_DOWN = "pool-down"
    POOL_SILENT = "pool-silent"
    POOL_SLOW = "pool-slow"
    OVER_BUDGET = "over-budget"
    POOL_ASKED_FOR = "pool-asked-for"
    KIND_OF_REQUEST = "kind-of-request"
    LOW_CONFIDENCE = "low-confidence"
    LONG_PROMPT = "long-prompt"
    LONG_ANSWER = "long-answer"
    PI_SILENT = "pi-silent"
    LATE_FIRST_TOKEN = "late-first-token"
    QUEUE = "queue"
    CPU = "cpu"
    HOT = "hot"
    SPECULATIVE = "speculative"
    POOL_NO_FASTER = "pool-no-faster"
    PI_FITS = "pi-fits"


#: What each reason says, for people.
MEANINGS: dict[Reason, str] = {
    Reason.NOT_ON_PI: "the Pi has not loaded the model, or nobody knows how fast it is there",
    Reason.BEYOND_CONTEXT: "prompt and answer are longer than the model's context on the Pi",
    Reason.ON_DEVICE_ONLY: "the prompt may not leave the Pi",
    Reason.ON_SITE_ONLY: "the prompt may not leave the site, and the pool is elsewhere",
    Reason.NO_CONSENT: "the user does not let the prompt leave the Pi",
    Reason.NOT_IN_POOL: "the pool does not serve the model, or there is no pool",
    Reason.POOL_DOWN: "the pool does not answer",
    Reason.POOL_SILENT: "the pool's last news is older than `stale_after`, or from the future",
    Reason.POOL_SLOW: "the pool's first token is predicted for after `pool_timeout`: queue, work, round trips and losses together",
    Reason.OVER_BUDGET: "the pool's answer costs more than the request or the account may spend",
    Reason.POOL_ASKED_FOR: "the client asks for the pool",
    Reason.KIND_OF_REQUEST: "requests of this kind go to the pool",
    Reason.LOW_CONFIDENCE: "the Pi's answer is likely worse: its confidence is below `confidence`",
    Reason.LONG_PROMPT: "the prompt is longer than `prompt_tokens`",
    Reason.LONG_ANSWER: "the answer may be longer than `local_tokens`",
    Reason.PI_SILENT: "the Pi's own measurements are older than `stale_after`, or from the future",
    Reason.LATE_FIRST_TOKEN: "the Pi's first token is predicted for after the deadline: wait, and prompt over its reading speed",
    Reason.QUEUE: "a slot of the Pi is free only after `queue_wait`",
    Reason.CPU: "other work uses more of the Pi's CPU than `cpu`",
    Reason.HOT: "the Pi is throttled, or at `temperature`",
    Reason.SPECULATIVE: "Pi and pool work at once",
    Reason.POOL_NO_FASTER: "the Pi is loaded, and the pool's first token would come no sooner",
    Reason.PI_FITS: "nothing speaks against the Pi",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request is answered (*route*), and the *reasons*, the first of which counted most.

    *degraded*: it should have gone elsewhere, and could not. *first_token* is the predicted time to the first token there, in seconds;
    infinite where nobody can say. *version* is that of the policy.
    """

    route: Route
    reasons: tuple[Reason, ...]
    degraded: bool
    first_token: float
    version: int

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


def decide(request: Request, state: State, policy: RoutingPolicy) -> Decision:
    """Where *request* is answered in *state* under *policy*. Pure and total; see `Reason` for what it looks at, in order.

    Monotone: as the Pi's load grows, a request never moves from the pool towards the Pi; as the pool's load or the way there grows, never
    from the Pi towards the pool.
    """
    model = request.model or (policy.models[0].name if policy.models else "")
    pi_bars, pi_first = _on_pi(request, state.pi, policy, model)
    pool_bars, pool_first = _in_pool(request, state, policy, model)
    if pi_bars and pool_bars:
        return Decision(Route.NOWHERE, (*pi_bars, *pool_bars), False, math.inf, policy.version)
    if pi_bars:
        return Decision(Route.POOL, pi_bars, False, pool_first, policy.version)
    mode = request.mode or policy.mode
    better = _better_in_pool(request, policy, mode)
    load = _load(request, state.pi, policy, pi_first)
    if pool_bars:
        degraded = bool(better or load) and not _private(pool_bars[0])
        return Decision(
            Route.PI,
            (*pool_bars, *better, *load) if better or load else (Reason.PI_FITS,),
            degraded,
            pi_first,
            policy.version,
        )
    sooner = pool_first < pi_first
    if mode is Mode.SPECULATIVE and request.hint is not Hint.PI and not (load and (better or sooner)):
        reasons = (*better, *load, Reason.SPECULATIVE)
        return Decision(Route.BOTH, reasons, False, min(pi_first, pool_first), policy.version)
    if better or (load and sooner):
        return Decision(Route.POOL, (*better, *load), False, pool_first, policy.version)
    reasons = (*load, Reason.POOL_NO_FASTER) if load else (Reason.PI_FITS,)
    return Decision(Route.PI, reasons, bool(load), pi_first, policy.version)


_Bars = tuple[Reason, ...]
_NONE: _Bars = ()


def _private(bar: Reason) -> bool:
    """Whether a bar to the pool is the user's own wish, and so no fault of anything."""
    return bar in {Reason.ON_DEVICE_ONLY, Reason.ON_SITE_ONLY, Reason.NO_CONSENT}


def _on_pi(request: Request, pi: PiState, policy: RoutingPolicy, model: str) -> tuple[_Bars, float]:
    """What bars *request* from the Pi, whatever its load, and the predicted seconds to its first token there."""
    known = pi.models.get(model)
    if known is None or not (known.prefill > 0 and known.decode > 0):
        return (Reason.NOT_ON_PI,), math.inf
    prompt, answer = request.prompt_tokens, request.answer_tokens
    if not (prompt >= 0 and answer >= 0 and prompt + answer <= min(known.context, _MOST)):
        return (Reason.BEYOND_CONTEXT,), math.inf
    if not 0 <= pi.age < policy.stale_after:
        return _NONE, math.inf
    wait = 0.0 if pi.free_slots > 0 else pi.queue_wait
    return _NONE, _time(wait) + _time(known.start) + prompt / known.prefill


def _in_pool(request: Request, state: State, policy: RoutingPolicy, model: str) -> tuple[_Bars, float]:
    """What bars *request* from the pool, and the predicted seconds to its first token there."""
    if request.privacy is Privacy.ON_DEVICE:
        return (Reason.ON_DEVICE_ONLY,), math.inf
    pool = state.pool
    if request.privacy is Privacy.ON_SITE and pool is not None and not pool.on_site:
        return (Reason.ON_SITE_ONLY,), math.inf
    if not request.consent:
        return (Reason.NO_CONSENT,), math.inf
    if pool is None or model not in pool.models:
        return (Reason.NOT_IN_POOL,), math.inf
    if not pool.healthy:
        return (Reason.POOL_DOWN,), math.inf
    if not 0 <= pool.age < policy.stale_after:
        return (Reason.POOL_SILENT,), math.inf
    first = _time(pool.queue_wait) + _time(pool.first_token)
    for hop in state.path:
        first += _time(hop.rtt) + (hop.loss / (1 - hop.loss) * RETRANSMISSION if 0 <= hop.loss < 1 else math.inf)
    if first >= policy.pool_timeout:
        return (Reason.POOL_SLOW,), first
    if (request.budget is not None or state.budget is not None) and not _affordable(request, state.budget, pool.price):
        return (Reason.OVER_BUDGET,), first
    return _NONE, first


def _affordable(request: Request, left: float | None, price: float) -> bool:
    """Whether the pool's answer costs no more than the request and the account may spend; what is unknown is too dear."""
    tokens = request.prompt_tokens + request.answer_tokens
    if not (0 <= tokens <= _MOST and 0 <= price <= _MOST):
        return False
    cost = price * tokens / 1000
    return (request.budget is None or cost <= request.budget) and (left is None or cost <= left)


def _better_in_pool(request: Request, policy: RoutingPolicy, mode: Mode) -> _Bars:
    """Why the pool would answer better, whatever the load."""
    if request.hint is Hint.PI:
        return _NONE
    found = _NONE
    if request.hint is Hint.POOL:
        found = (Reason.POOL_ASKED_FOR,)
    if request.kind is Kind.BATCH or (mode is Mode.ENSEMBLE and request.kind in policy.pool_kinds):
        found = (*found, Reason.KIND_OF_REQUEST)
    if request.confidence is not None and not policy.confidence <= request.confidence <= 1:
        found = (*found, Reason.LOW_CONFIDENCE)
    if mode is Mode.LOCAL_FIRST or mode is Mode.SPECULATIVE:
        if not request.prompt_tokens <= policy.prompt_tokens:
            found = (*found, Reason.LONG_PROMPT)
        if not request.answer_tokens <= policy.local_tokens:
            found = (*found, Reason.LONG_ANSWER)
    return found


def _load(request: Request, pi: PiState, policy: RoutingPolicy, first: float) -> _Bars:
    """Why the Pi is too busy, or too slow for this prompt; *first* is its predicted time to the first token."""
    if not 0 <= pi.age < policy.stale_after:
        return (Reason.PI_SILENT,)
    found = _NONE
    due = request.deadline if request.deadline is not None else policy.objectives.edge_p95
    if due is not None and not first <= due:
        found = (Reason.LATE_FIRST_TOKEN,)
    if not pi.free_slots > 0 and not 0 <= pi.queue_wait <= policy.queue_wait:
        found = (*found, Reason.QUEUE)
    if not 0 <= pi.cpu <= policy.cpu:
        found = (*found, Reason.CPU)
    if pi.throttled or not pi.temperature < policy.temperature:
        found = (*found, Reason.HOT)
    return found


def _time(written: float) -> float:
    """Seconds as told; infinite for what is no time."""
    return written if 0 <= written <= _MOST else math.inf
