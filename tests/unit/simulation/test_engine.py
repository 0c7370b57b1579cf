"""The simulation: no request is lost or counted twice, faults end as `decide` says, and queues are those of the formulas."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.routing import Mode, ModelForms, PiModel, Privacy, Request, Route, RoutingPolicy, decide
from pinion.simulation.baselines import ROUTERS, all_pool
from pinion.simulation.capacity import Question, erlang_b, erlang_c, pool_of, wait_quantile
from pinion.simulation.engine import Decide, Simulation
from pinion.simulation.load import Arrival, mean_answer, rate_at, synthetic
from pinion.simulation.outcome import Outcome
from pinion.simulation.scenario import Bursts, Diurnal, KindOfLoad, Link, Load, Pool, Tokens
from pinion.simulation.setting import Setting
from pinion.simulation.summary import percentiles, summary

POLICY = RoutingPolicy(site="rack", models=(ModelForms("tiny", "tiny-1", "tiny-13"),))
TINY = PiModel(prefill=300.0, decode=30.0, context=2048)
EASY, HARD = Request(30, 30, confidence=0.9), Request(30, 30, confidence=0.1)
SETTING = Setting(
    pis=4,
    slots=1,
    models={"tiny": TINY},
    policy=POLICY,
    path=(Link(rtt=0.002),),
    pool=Pool(replicas=1, slots=4, service=0.2, varies="constant", first_token=0.02),
    replicas=1,
    served=("tiny",),
)


def with_pool(**changes: Any) -> Setting:
    assert SETTING.pool is not None
    return dataclasses.replace(SETTING, pool=SETTING.pool.model_copy(update=changes))


def run(setting: Setting, *requests: tuple[float, int, Request], seed: int = 1, by: Decide = decide) -> Outcome:
    return Simulation(setting, by, seed).run(
        Arrival(at, pi, request, request.confidence) for at, pi, request in requests
    )


# --- one request at a time --------------------------------------------------------------------------------------------


def test_an_easy_request_is_answered_on_its_pi() -> None:
    found = run(SETTING, (1.0, 0, EASY))
    assert list(found.first_tokens[Route.PI]) == [pytest.approx(0.1)]
    assert list(found.answers[Route.PI]) == [pytest.approx(1.1)]
    assert (found.gpu_seconds, found.refused, found.degraded) == (0.0, 0, 0)


def test_a_hard_one_goes_to_the_pool_and_back() -> None:
    found = run(SETTING, (1.0, 0, HARD))
    assert list(found.first_tokens[Route.POOL]) == [pytest.approx(0.022)]
    assert list(found.answers[Route.POOL]) == [pytest.approx(0.202)]
    assert found.gpu_seconds == pytest.approx(0.2 / 4)


def test_a_pi_works_on_one_and_the_next_waits_where_no_pool_is() -> None:
    found = run(dataclasses.replace(SETTING, pool=None), (1.0, 0, EASY), (1.0, 0, EASY), (1.0, 1, EASY))
    assert sorted(found.answers[Route.PI]) == [pytest.approx(time) for time in (1.1, 1.1, 2.2)]
    assert found.degraded == 1


def test_a_request_that_would_wait_goes_to_the_pool() -> None:
    found = run(SETTING, (1.0, 0, EASY), (1.0, 0, EASY))
    assert (len(found.answers[Route.PI]), len(found.answers[Route.POOL])) == (1, 1)
    assert found.reasons == {"pi-fits": 1, "queue": 1}


def test_a_lost_packet_costs_a_retransmission() -> None:
    setting = dataclasses.replace(SETTING, path=(Link(rtt=0.002, loss=0.5),))
    found = run(setting, *((float(at), 0, HARD) for at in range(1, 400)))
    delays = [round((time - 0.022) / 0.2) for time in found.first_tokens[Route.POOL]]
    assert 0.8 < sum(delays) / len(delays) < 1.2
    assert delays.count(0) == pytest.approx(200, abs=40)


def test_early_exit_hands_over_what_the_pi_has_begun() -> None:
    policy = dataclasses.replace(POLICY, mode=Mode.EARLY_EXIT, speculative_tokens=10)
    setting = dataclasses.replace(SETTING, policy=policy)

    def arrivals() -> Iterator[Arrival]:
        yield Arrival(1.0, 0, Request(30, 30), 0.1)
        yield Arrival(1.0, 1, Request(30, 30), 0.9)
        yield Arrival(1.0, 2, Request(30, 30, privacy=Privacy.ON_DEVICE), 0.1)
        yield Arrival(1.5, 0, Request(30, 30), 0.9)

    found = Simulation(setting, decide, 1).run(arrivals())
    assert found.handed_over == 1
    assert list(found.first_tokens[Route.POOL]) == [pytest.approx(0.1)], "the Pi's own first token"
    assert list(found.answers[Route.POOL]) == [pytest.approx(0.1 + 10 / 30 + 0.202)]
    assert sorted(found.answers[Route.PI]) == [pytest.approx(1.1)] * 3, "the slot was free again for the fourth"
    assert found.doubtful == 1


def test_both_work_at_once_and_the_first_token_is_the_sooner_one() -> None:
    setting = dataclasses.replace(SETTING, policy=dataclasses.replace(POLICY, mode=Mode.SPECULATIVE))
    (first,) = run(setting, (1.0, 0, EASY)).first_tokens[Route.BOTH]
    assert first == pytest.approx(0.022)
    slow = dataclasses.replace(setting, path=(Link(rtt=0.5),))
    (first,) = run(slow, (1.0, 0, EASY)).first_tokens[Route.BOTH]
    assert first == pytest.approx(0.1)


def test_a_batching_window_waits_until_it_is_over_or_full() -> None:
    setting = with_pool(window=0.05)
    alone = run(setting, (1.0, 0, HARD))
    assert list(alone.first_tokens[Route.POOL]) == [pytest.approx(0.072)]
    full = run(setting, *((1.0 + pi / 1000, pi, HARD) for pi in range(4)))
    assert max(full.first_tokens[Route.POOL]) == pytest.approx(0.025)


def test_the_pools_time_follows_the_answer_where_the_scenario_says_so() -> None:
    setting = dataclasses.replace(with_pool(varies="answer"), mean_answer=60.0)
    assert run(setting, (1.0, 0, HARD)).gpu_seconds == pytest.approx(0.1 / 4)


# --- faults ----------------------------------------------------------------------------------------------------------


def broken(what: str, at: float, until: float, **changes: Any) -> Setting:
    return dataclasses.replace(SETTING, faults=((at, what, True), (until, what, False)), **changes)


@pytest.mark.parametrize("what", ["pool-dead", "link-cut"])
def test_a_dead_pool_loses_nothing_and_is_used_again_when_it_lives(what: str) -> None:
    requests = [(at / 10, at % 40, HARD) for at in range(600)]
    found = run(broken(what, 20.0, 40.0, pis=40), *requests)
    answered = sum(map(len, found.answers.values()))
    assert (answered, found.refused) == (600, 0)
    assert 0 < found.fallbacks <= 40, "each Pi finds out for itself, and tries again only after news"
    assert 190 <= len(found.answers[Route.PI]) <= 215
    assert found.degraded >= 190
    assert max(found.first_tokens[Route.PI]) < 1.0, "nobody hangs: 0.5 s until it is known, then the Pi"


def test_only_what_no_pi_can_answer_is_refused_when_the_pool_dies() -> None:
    setting = broken("pool-dead", 20.0, 40.0, models={})
    found = run(setting, *((at / 10, 0, HARD) for at in range(600)))
    assert sum(map(len, found.answers.values())) + found.refused == 600
    assert 195 <= found.refused <= 215


def test_a_request_that_waits_too_long_in_the_pool_is_answered_at_home() -> None:
    policy = dataclasses.replace(POLICY, pool_timeout=1.0)
    setting = dataclasses.replace(with_pool(service=3.0, slots=1), policy=policy)
    found = run(setting, (1.0, 0, HARD), (1.001, 1, HARD))
    assert (len(found.answers[Route.POOL]), len(found.answers[Route.PI])) == (1, 1)
    assert found.fallbacks == 1
    assert list(found.first_tokens[Route.PI]) == [pytest.approx(1.1)]


def failing(*at: tuple[float, str, bool], **pool: Any) -> Setting:
    return dataclasses.replace(with_pool(**{"service": 3.0, "slots": 1} | pool), faults=at)


def test_two_faults_at_once_send_a_request_home_once() -> None:
    setting = failing((1.5, "pool-dead", True), (1.6, "link-cut", True))
    found = run(setting, (1.0, 0, HARD), (9.0, 1, EASY))
    assert found.fallbacks == 1
    assert sorted(found.answers[Route.PI]) == [pytest.approx(1.1), pytest.approx(0.5 + 0.5 + 1.1)]
    assert list(found.first_tokens[Route.PI]) == [pytest.approx(0.022), pytest.approx(0.1)], "it had begun to stream"


def test_a_token_that_a_dead_pool_had_not_made_was_not_seen() -> None:
    found = run(failing((1.5, "pool-dead", True), first_token=0.8), (1.0, 0, HARD))
    assert list(found.first_tokens[Route.PI]) == [pytest.approx(0.5 + 0.5 + 0.1)]


def test_an_answer_that_ends_behind_a_cut_link_never_comes() -> None:
    """It ends 0.2 s after the cut, and the Pi knows of that after 0.5 s."""
    found = run(failing((1.5, "link-cut", True), service=0.7, first_token=0.6), (1.0, 0, HARD))
    assert len(found.answers[Route.POOL]) == 0
    assert list(found.first_tokens[Route.PI]) == [pytest.approx(0.5 + 0.5 + 0.1)]


def test_a_pool_that_lives_again_has_forgotten_what_it_worked_on() -> None:
    """A slot is free at once, and what ended in the old life frees none in the new."""
    setting = failing((1.5, "pool-dead", True), (1.6, "pool-dead", False))
    found = run(setting, (1.0, 0, HARD), (2.5, 1, HARD), (4.3, 2, HARD))
    assert list(found.first_tokens[Route.POOL]) == [pytest.approx(0.022), pytest.approx(5.501 - 4.3 + 0.021)]


def test_what_waited_in_a_dead_pool_waits_there_no_more() -> None:
    setting = failing((1.5, "pool-dead", True), (1.6, "pool-dead", False), detection=4.0, service=1.0)
    found = run(setting, (1.0, 0, HARD), (1.1, 1, HARD), (2.5, 2, HARD))
    assert len(found.answers[Route.POOL]) == 1
    assert sorted(found.answers[Route.PI]) == [pytest.approx(1.5 + 4.0 + 1.1 - arrived) for arrived in (1.1, 1.0)]


def test_a_queue_that_is_worked_off_is_forgotten() -> None:
    setting = dataclasses.replace(SETTING, policy=dataclasses.replace(POLICY, queue_wait=1.5))
    found = run(setting, *((at, 0, EASY) for at in (1.0, 1.0, 1.0, 10.0, 10.0)))
    assert (len(found.answers[Route.PI]), len(found.answers[Route.POOL])) == (4, 1)


kinds = st.builds(
    KindOfLoad,
    prompt=st.builds(Tokens, median=st.floats(1, 60), p95=st.floats(60, 200)),
    answer=st.builds(Tokens, median=st.floats(1, 60), p95=st.floats(60, 200)),
    hard=st.floats(0, 1),
    mode=st.none() | st.sampled_from(Mode),
    privacy=st.sampled_from(Privacy),
)
faults = st.lists(
    st.tuples(st.floats(0, 30), st.sampled_from(["pool-dead", "link-cut"]), st.booleans()), max_size=5
).map(tuple)


@given(
    kind=kinds,
    rate=st.floats(0.5, 40),
    pool=st.builds(
        Pool,
        slots=st.integers(1, 4),
        service=st.floats(0.01, 3),
        varies=st.sampled_from(["constant", "exponential", "answer"]),
        window=st.sampled_from([0.0, 0.02]),
    ),
    slots=st.integers(1, 3),
    broken_at=faults,
    loss=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_every_request_ends_once_whatever_breaks(
    kind: KindOfLoad, rate: float, pool: Pool, slots: int, broken_at: Any, loss: float, seed: int
) -> None:
    setting = dataclasses.replace(
        SETTING, pool=pool, slots=slots, faults=broken_at, path=(Link(rtt=0.01, loss=loss),), mean_answer=20.0
    )
    load = Load(rate=rate, kinds=(kind,))
    arrivals = list(synthetic(load, 20.0, setting.pis, POLICY, seed))
    found = Simulation(setting, decide, seed).run(iter(arrivals))
    assert sum(map(len, found.answers.values())) + found.refused == len(arrivals)
    for route in Route:
        for first, whole in zip(found.first_tokens[route], found.answers[route], strict=True):
            assert 0 <= first <= whole + 1e-9 < math.inf
    again = Simulation(setting, decide, seed).run(iter(arrivals))
    assert again == found


def test_the_policy_is_the_production_code() -> None:
    assert ROUTERS["policy"] is decide


# --- the formulas and the simulation agree ----------------------------------------------------------------------------


@pytest.mark.parametrize(("gpus", "slots", "rate"), [(2, 8, 60.0), (1, 1, 3.5), (8, 8, 300.0)])
def test_waits_in_the_pool_are_those_of_erlang(gpus: int, slots: int, rate: float) -> None:
    service = 0.2
    pool = Pool(slots=slots, service=service, first_token=0.0, varies="exponential")
    setting = dataclasses.replace(
        SETTING, pool=pool, replicas=gpus, path=(), policy=dataclasses.replace(POLICY, pool_timeout=1e6)
    )
    load = Load(rate=rate, kinds=(KindOfLoad(hard=1.0),))
    found = Simulation(setting, all_pool, 1).run(synthetic(load, 120_000 / rate, 4, POLICY, 7))
    waits = found.first_tokens[Route.POOL]
    servers, offered = gpus * slots, rate * service
    waiting = sum(wait > 1e-9 for wait in waits) / len(waits)
    assert waiting == pytest.approx(erlang_c(servers, offered), rel=0.06)
    assert sum(waits) / len(waits) == pytest.approx(
        erlang_c(servers, offered) * service / (servers - offered), rel=0.12
    )
    told = percentiles(waits)
    assert told is not None
    assert told.p95 == pytest.approx(wait_quantile(servers, offered, service, 0.95), rel=0.12, abs=0.002)
    question = Question(rate, 0.0, service, 1.0, slots, 0.0, 0.0)
    assert summary(found, setting).gpu_seconds_held > 0
    assert found.gpu_seconds / (found.end * gpus) == pytest.approx(pool_of(gpus, question, rate).used, rel=0.03)


def test_erlangs_own_figures() -> None:
    """Tables of teletraffic: 10 erlangs on 10 trunks block 21.46%; one server waits with its utilisation (M/M/1)."""
    assert erlang_b(10, 10.0) == pytest.approx(0.2146, abs=5e-5)
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert wait_quantile(1, 0.5, 1.0, 0.95) == pytest.approx(math.log(10) / 0.5)
    assert erlang_c(4, 4.0) == 1.0
    assert wait_quantile(4, 4.0, 1.0, 0.5) == math.inf


# --- the load -------------------------------------------------------------------------------------------------------


def count(load: Load, seconds: float) -> list[float]:
    return [arrival.at for arrival in synthetic(load, seconds, 4, POLICY, 3)]


def test_a_poisson_load_has_its_rate_and_its_spread() -> None:
    times = count(Load(rate=50), 400)
    assert len(times) == pytest.approx(20_000, rel=0.03)
    gaps = [later - sooner for sooner, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.06)


@pytest.mark.parametrize(
    ("load", "busy", "quiet", "ratio"),
    [
        (
            Load(rate=50, bursts=Bursts(factor=5, every=60, length=6)),
            lambda at: at % 60 < 6,
            lambda at: at % 60 >= 6,
            5.0,
        ),
        (
            Load(rate=50, diurnal=Diurnal(period=100, trough=0.2)),
            lambda at: 49 < at % 100 < 51,
            lambda at: at % 100 < 1 or at % 100 > 99,
            5.0,
        ),
    ],
)
def test_bursts_and_days(
    load: Load, busy: Callable[[float], bool], quiet: Callable[[float], bool], ratio: float
) -> None:
    times = count(load, 3000)
    seconds = range(30_000)
    rates = [
        sum(map(when, times)) / (sum(when(second / 10 + 0.05) for second in seconds) / 10) for when in (busy, quiet)
    ]
    assert rates[0] / rates[1] == pytest.approx(ratio, rel=0.1)
    assert max(rate_at(load, second / 10) for second in seconds) == pytest.approx(max(rates), rel=0.1)


def test_lengths_and_confidence_are_those_of_the_scenario() -> None:
    kind = KindOfLoad(prompt=Tokens(median=40, p95=120), answer=Tokens(median=20, p95=20), hard=0.25)
    load = Load(rate=100, kinds=(kind,))
    arrivals = list(synthetic(load, 200, 4, POLICY, 5))
    prompts = sorted(arrival.request.prompt_tokens for arrival in arrivals)
    assert prompts[len(prompts) // 2] == pytest.approx(40, abs=2)
    assert prompts[len(prompts) * 95 // 100] == pytest.approx(120, rel=0.08)
    assert mean_answer(load) == pytest.approx(20)
    low = sum((arrival.request.confidence or 0) < POLICY.confidence for arrival in arrivals)
    assert low / len(arrivals) == pytest.approx(0.25, abs=0.02)
    assert {arrival.pi for arrival in arrivals} == {0, 1, 2, 3}
