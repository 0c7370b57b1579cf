"""What `decide` promises for any numbers: privacy, ability, money, monotone in load, and that a record replays to the same decision."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from unit.routing.test_decide import EASY, POLICY, STATE

from pinion.routing import (
    Hint,
    Hop,
    Kind,
    Mode,
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
from pinion.routing.record import Record, read

#: How far a request is from the Pi.
FAR = {Route.PI: 0, Route.BOTH: 1, Route.POOL: 2}

#: Also what no sound program would say.
wild = st.one_of(st.sampled_from([0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1e308]), st.floats())
wild_counts = st.integers(min_value=-2, max_value=1 << 40) | st.sampled_from([10**400, -(10**400)])


def mostly(sound: st.SearchStrategy[Any], otherwise: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """*sound* nine times of ten, so that one wrong field in a sound whole is what is mostly tried."""
    return st.integers(min_value=0, max_value=9).flatmap(lambda at: otherwise if at == 0 else sound)


times = mostly(st.floats(min_value=0, max_value=1), wild)
part = mostly(st.floats(min_value=0, max_value=1), wild)
tokens = mostly(st.integers(min_value=0, max_value=200), wild_counts)
names = mostly(st.sampled_from(["", "tiny"]), st.sampled_from(["large", "unknown"]))
requests = st.builds(
    Request,
    prompt_tokens=tokens,
    answer_tokens=tokens,
    model=names,
    kind=st.sampled_from(Kind),
    hint=st.sampled_from(Hint),
    privacy=st.sampled_from(Privacy),
    mode=st.none() | st.sampled_from(Mode),
    confidence=st.none() | part,
    deadline=st.none() | times,
    consent=mostly(st.just(True), st.just(False)),
    budget=st.none() | times,
)
rates = mostly(st.floats(min_value=5, max_value=300), wild)
pis = st.builds(
    PiState,
    models=st.fixed_dictionaries(
        {
            "tiny": st.builds(
                PiModel, prefill=rates, decode=rates, context=mostly(st.just(256), wild_counts), start=times
            )
        }
    ),
    free_slots=mostly(st.integers(min_value=0, max_value=2), wild_counts),
    queue_wait=times,
    cpu=part,
    temperature=mostly(st.floats(min_value=20, max_value=90), wild),
    throttled=mostly(st.just(False), st.just(True)),
    age=times,
)
pools = st.builds(
    PoolState,
    models=mostly(st.just(("tiny", "large")), st.lists(names, unique=True).map(tuple)),
    healthy=mostly(st.just(True), st.just(False)),
    on_site=st.booleans(),
    queue_wait=times,
    first_token=times,
    price=times,
    age=times,
)
hops = st.builds(Hop, rtt=times, loss=part)
states = st.builds(
    State,
    pi=pis,
    pool=mostly(pools, st.none()),
    path=st.lists(hops, max_size=3).map(tuple),
    budget=mostly(st.none(), times),
)
#: What a policy may be; anything else is refused when it is made.
policies = st.builds(
    RoutingPolicy,
    site=st.just("rack"),
    version=st.integers(min_value=0, max_value=9),
    mode=st.sampled_from(Mode),
    prompt_tokens=st.integers(min_value=1, max_value=200),
    queue_wait=st.floats(min_value=0, max_value=1),
    cpu=st.floats(min_value=0, max_value=1),
    confidence=st.floats(min_value=0, max_value=1),
    local_tokens=st.integers(min_value=1, max_value=200),
    pool_timeout=st.floats(min_value=0, max_value=20),
    stale_after=st.floats(min_value=0, max_value=5),
    objectives=st.builds(Objectives, edge_p95=st.none() | st.floats(min_value=0, max_value=3)),
    models=st.just(POLICY.models),
)
#: A decision takes microseconds, so many can be tried.
many = settings(max_examples=300)


@many
@given(requests, states, policies)
def test_it_answers_for_any_numbers_always_the_same_and_says_why(
    request: Request, state: State, policy: RoutingPolicy
) -> None:
    found = decide(request, state, policy)
    assert found == decide(request, state, policy)
    order = [list(Reason).index(reason) for reason in found.reasons]
    assert order
    assert order == sorted(set(order)), "in the order of the table, none twice"
    assert found.first_token >= 0
    assert found.version == policy.version


@many
@given(requests, states, policies)
def test_it_never_breaks_privacy(request: Request, state: State, policy: RoutingPolicy) -> None:
    if decide(request, state, policy).route in {Route.BOTH, Route.POOL}:
        assert request.consent
        assert request.privacy is not Privacy.ON_DEVICE
        assert state.pool is not None
        assert state.pool.on_site or request.privacy is Privacy.ANY


@many
@given(requests, states, policies)
def test_it_never_picks_a_place_that_cannot(request: Request, state: State, policy: RoutingPolicy) -> None:
    route, model = decide(request, state, policy).route, request.model or "tiny"
    if route in {Route.PI, Route.BOTH}:
        loaded = state.pi.models[model]
        assert loaded.prefill > 0
        assert loaded.decode > 0
        assert 0 <= request.prompt_tokens + request.answer_tokens <= loaded.context
    if route in {Route.POOL, Route.BOTH}:
        assert state.pool is not None
        assert model in state.pool.models
        assert state.pool.healthy
        assert 0 <= state.pool.age < policy.stale_after
        assert state.pool.first_token + sum(hop.rtt for hop in state.path) < policy.pool_timeout


@many
@given(requests, states, policies)
def test_a_limit_of_money_is_kept(request: Request, state: State, policy: RoutingPolicy) -> None:
    if decide(request, state, policy).route in {Route.BOTH, Route.POOL}:
        assert state.pool is not None
        for limit in (request.budget, state.budget):
            if limit is not None:
                assert state.pool.price * (request.prompt_tokens + request.answer_tokens) / 1000 <= limit


more = st.floats(min_value=0, max_value=100)


@many
@given(
    requests,
    states,
    policies,
    st.sampled_from(["queue_wait", "cpu", "temperature", "throttled", "free_slots", "age"]),
    more,
)
def test_more_load_on_the_pi_never_moves_a_request_towards_it(
    request: Request, state: State, policy: RoutingPolicy, what: str, by: float
) -> None:
    before = getattr(state.pi, what)
    after = True if what == "throttled" else before - int(by) if what == "free_slots" else before + by
    loaded = dataclasses.replace(state, pi=dataclasses.replace(state.pi, **{what: after}))
    if what == "age" and not before >= 0:
        return  # a negative age that grows is the clock coming right again
    was, now = (decide(request, one, policy).route for one in (state, loaded))
    if was is Route.NOWHERE or now is Route.NOWHERE or not _sound(before):
        assert (was is Route.NOWHERE) == (now is Route.NOWHERE) or not _sound(before)
        return
    assert FAR[now] >= FAR[was]


@many
@given(
    requests, states, policies, st.sampled_from(["queue_wait", "first_token", "healthy", "rtt", "loss", "price"]), more
)
def test_a_worse_pool_or_way_never_moves_a_request_towards_it(
    request: Request, state: State, policy: RoutingPolicy, what: str, by: float
) -> None:
    if state.pool is None:
        return
    if what in {"rtt", "loss"}:
        hop = Hop(rtt=by) if what == "rtt" else Hop(rtt=0.0, loss=by / 100)
        worse = dataclasses.replace(state, path=(*state.path, hop))
    else:
        before = getattr(state.pool, what)
        if not _sound(before):
            return
        after = False if what == "healthy" else before + by
        worse = dataclasses.replace(state, pool=dataclasses.replace(state.pool, **{what: after}))
    was, now = (decide(request, one, policy).route for one in (state, worse))
    if now is Route.NOWHERE:
        assert was in {Route.POOL, Route.NOWHERE}
    elif was is not Route.NOWHERE:
        assert FAR[now] <= FAR[was]
    else:
        pytest.fail(f"{was} became {now} when the pool got worse")


def _sound(value: float) -> bool:
    """Whether a number is one to which more can be added: what is unsound counts as the worst already."""
    return bool(value >= 0)


@many
@given(requests, states, policies)
def test_a_record_replays_to_the_same_decision(request: Request, state: State, policy: RoutingPolicy) -> None:
    record = Record(request, state, policy, decide(request, state, policy))
    line = record.line()
    assert "\n" not in line
    again = read(line)
    assert again.decision == again.replayed() == record.decision
    assert again.line() == line


@pytest.mark.parametrize("damage", [{"version": "x"}, {"unknown": 1}, {"route": "moon"}])
def test_a_damaged_record_is_refused(damage: dict[str, Any]) -> None:
    stated = json.loads(Record(EASY, STATE, POLICY, decide(EASY, STATE, POLICY)).line())
    stated["decision"] |= damage
    with pytest.raises(ValidationError, match=next(iter(damage))):
        read(json.dumps(stated))
