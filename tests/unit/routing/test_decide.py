"""`decide`: the table of its reasons, a case for each; that it is fast and brings no library along; and what no policy may be."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import time
from typing import Any

import pytest

from pinion.routing import (
    Hint,
    Hop,
    Kind,
    Mode,
    ModelForms,
    Objectives,
    PiModel,
    PiState,
    PoolState,
    Privacy,
    Reason,
    Request,
    Route,
    RoutingPolicy,
    State,
    decide,
)
from pinion.routing.decision import MEANINGS

TINY = PiModel(prefill=289.9, decode=33.84, context=2048)
POLICY = RoutingPolicy(
    site="rack", models=(ModelForms("tiny", "tiny-1", "tiny-13"), ModelForms("large", None, "big-1"))
)
IDLE = PiState({"tiny": TINY}, free_slots=1)
POOL = PoolState(("tiny", "large"), first_token=0.02)
STATE = State(IDLE, POOL, (Hop(0.001), Hop(0.001)))
EASY = Request(prompt_tokens=20, answer_tokens=32)


# --- the table of reasons ---------------------------------------------------------------------------------------------


def change(over: Any, **changes: Any) -> Any:
    return dataclasses.replace(over, **changes)


def at_pi(**changes: Any) -> State:
    return change(STATE, pi=change(IDLE, **changes))


def at_pool(**changes: Any) -> State:
    return change(STATE, pool=change(POOL, **changes))


CASES: dict[Reason, list[tuple[Request, State, RoutingPolicy, Route, bool]]] = {
    Reason.NOT_ON_PI: [(change(EASY, model="large"), STATE, POLICY, Route.POOL, False)],
    Reason.BEYOND_CONTEXT: [(change(EASY, prompt_tokens=2048), STATE, POLICY, Route.POOL, False)],
    Reason.ON_DEVICE_ONLY: [
        (change(EASY, privacy=Privacy.ON_DEVICE, prompt_tokens=65), STATE, POLICY, Route.PI, False)
    ],
    Reason.ON_SITE_ONLY: [
        (change(EASY, privacy=Privacy.ON_SITE, prompt_tokens=65), at_pool(on_site=False), POLICY, Route.PI, False)
    ],
    Reason.NO_CONSENT: [(change(EASY, consent=False, prompt_tokens=65), STATE, POLICY, Route.PI, False)],
    Reason.NOT_IN_POOL: [
        (change(EASY, prompt_tokens=65), change(STATE, pool=None), POLICY, Route.PI, True),
        (change(EASY, model="unknown"), STATE, POLICY, Route.NOWHERE, False),
    ],
    Reason.POOL_DOWN: [(change(EASY, confidence=0.2), at_pool(healthy=False), POLICY, Route.PI, True)],
    Reason.POOL_SILENT: [
        (change(EASY, confidence=0.2), at_pool(age=3.0), POLICY, Route.PI, True),
        (change(EASY, confidence=0.2), at_pool(age=-0.001), POLICY, Route.PI, True),
    ],
    Reason.POOL_SLOW: [
        (change(EASY, confidence=0.2), at_pool(queue_wait=5.0), POLICY, Route.PI, True),
        (change(EASY, confidence=0.2), change(STATE, path=(Hop(0.001, 0.97),)), POLICY, Route.PI, True),
    ],
    Reason.OVER_BUDGET: [
        (change(EASY, confidence=0.2, budget=0.05), at_pool(price=1.0), POLICY, Route.PI, True),
        (change(EASY, confidence=0.2), change(at_pool(price=1.0), budget=0.05), POLICY, Route.PI, True),
    ],
    Reason.POOL_ASKED_FOR: [(change(EASY, hint=Hint.POOL), STATE, POLICY, Route.POOL, False)],
    Reason.KIND_OF_REQUEST: [
        (change(EASY, kind=Kind.BATCH), STATE, POLICY, Route.POOL, False),
        (change(EASY, kind=Kind.CODE, mode=Mode.ENSEMBLE), STATE, POLICY, Route.POOL, False),
    ],
    Reason.LOW_CONFIDENCE: [
        (change(EASY, confidence=0.849), STATE, POLICY, Route.POOL, False),
        (change(EASY, confidence=math.nan, mode=Mode.EARLY_EXIT), STATE, POLICY, Route.POOL, False),
    ],
    Reason.LONG_PROMPT: [(change(EASY, prompt_tokens=65), STATE, POLICY, Route.POOL, False)],
    Reason.LONG_ANSWER: [(change(EASY, answer_tokens=65), STATE, POLICY, Route.POOL, False)],
    Reason.PI_SILENT: [
        (EASY, at_pi(age=3.0), POLICY, Route.POOL, False),
        (EASY, at_pi(age=-0.001), POLICY, Route.POOL, False),
    ],
    Reason.LATE_FIRST_TOKEN: [
        (change(EASY, deadline=0.05), STATE, POLICY, Route.POOL, False),
        (EASY, STATE, change(POLICY, objectives=Objectives(edge_p95=0.05)), Route.POOL, False),
    ],
    Reason.QUEUE: [(EASY, at_pi(free_slots=0, queue_wait=0.101), POLICY, Route.POOL, False)],
    Reason.CPU: [(EASY, at_pi(cpu=0.801), POLICY, Route.POOL, False)],
    Reason.HOT: [
        (EASY, at_pi(temperature=80.0), POLICY, Route.POOL, False),
        (EASY, at_pi(throttled=True), POLICY, Route.POOL, False),
    ],
    Reason.SPECULATIVE: [
        (change(EASY, mode=Mode.SPECULATIVE), STATE, POLICY, Route.BOTH, False),
        (
            change(EASY, mode=Mode.SPECULATIVE),
            change(at_pool(queue_wait=0.1), pi=change(IDLE, cpu=0.9)),
            POLICY,
            Route.BOTH,
            False,
        ),
    ],
    Reason.POOL_NO_FASTER: [(EASY, change(at_pool(queue_wait=0.1), pi=change(IDLE, cpu=0.9)), POLICY, Route.PI, True)],
    Reason.PI_FITS: [
        (EASY, STATE, POLICY, Route.PI, False),
        (change(EASY, privacy=Privacy.ON_DEVICE), STATE, POLICY, Route.PI, False),
        (change(EASY, prompt_tokens=65, mode=Mode.EARLY_EXIT), STATE, POLICY, Route.PI, False),
        (change(EASY, prompt_tokens=65, hint=Hint.PI), STATE, POLICY, Route.PI, False),
        (EASY, at_pi(queue_wait=9.0), POLICY, Route.PI, False),
        (change(EASY, mode=Mode.SPECULATIVE, hint=Hint.PI), STATE, POLICY, Route.PI, False),
    ],
}


def test_each_reason_has_a_meaning_and_a_case() -> None:
    assert list(MEANINGS) == list(Reason)
    assert set(CASES) == set(Reason)


@pytest.mark.parametrize(
    ("reason", "case"),
    [(reason, case) for reason, cases in CASES.items() for case in cases],
    ids=lambda one: str(one)[:20],
)
def test_the_reason_decides(reason: Reason, case: tuple[Request, State, RoutingPolicy, Route, bool]) -> None:
    request, state, policy, route, degraded = case
    found = decide(request, state, policy)
    assert (found.route, found.degraded) == (route, degraded)
    assert reason in found.reasons
    if reason is not Reason.PI_FITS:
        easy = decide(dataclasses.replace(EASY, mode=Mode.LOCAL_FIRST), STATE, POLICY)
        assert reason not in easy.reasons


def test_a_long_prompt_on_a_large_model_is_late_although_it_fits() -> None:
    """512 tokens at 15.08 tokens/s are 34 s: no count of tokens says so."""
    slow = PiState({"tiny": PiModel(prefill=15.08, decode=6.07, context=4096)}, free_slots=1)
    request = Request(prompt_tokens=512, answer_tokens=16, deadline=10.0)
    policy = dataclasses.replace(POLICY, prompt_tokens=1024)
    found = decide(request, State(slow, POOL), policy)
    assert (found.route, found.reasons) == (Route.POOL, (Reason.LATE_FIRST_TOKEN,))
    alone = decide(request, State(slow), policy)
    assert alone.degraded
    assert alone.first_token == pytest.approx(512 / 15.08)


def test_decide_brings_no_library_along() -> None:
    """A request's path pays for no validation: nothing but the standard library is imported."""
    code = "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    program = f"import sys; sys.path[:0] = {sys.path!r}; import pinion.routing; {code}"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__main__", "pinion"}


def test_a_decision_takes_less_than_20_microseconds() -> None:
    """Of processor time, at its best of some rounds; it takes about 3 (tests/benchmarks/routing_speed.py)."""
    hard = Request(600, 200, confidence=0.2, budget=5.0)

    def taken() -> float:
        started = time.thread_time()
        for _ in range(2000):
            decide(hard, STATE, POLICY)
        return (time.thread_time() - started) / 2000

    assert min(taken() for _ in range(5)) < 20e-6


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"confidence": 1.5}, "confidence: 1.5 is not a number from 0 to 1"),
        ({"pool_timeout": math.inf}, "pool_timeout: inf is not a number from 0 up"),
        ({"cpu": math.nan}, "cpu: nan is not"),
        ({"prompt_tokens": 0}, "prompt_tokens: 0 is less than 1"),
        ({"models": (ModelForms("a"), ModelForms("a"))}, "models: a name stands there more than once"),
        ({"objectives": Objectives(availability=1.1)}, "objectives.availability: 1.1 is not"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_key(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RoutingPolicy(site="rack", **wrong)
