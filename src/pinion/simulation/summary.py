"""The figures of one simulation, and which objectives of the site it misses."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass

from pinion.routing.decision import Route
from pinion.routing.policy import Objectives
from pinion.simulation import EVIDENCE
from pinion.simulation.outcome import Outcome
from pinion.simulation.setting import Setting


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of *count* times, in seconds (nearest rank)."""

    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Miss:
    """An objective, what it *promised* and what was *found*: seconds, or a share."""

    objective: str
    promised: float
    found: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures. *hit_rate* is the share that Pis answered alone, *offload_rate* the share that the pool worked on and answered.

    *gpu_seconds* is what finished work used of GPUs, *gpu_seconds_held* what was there to be used; *cost* is of the latter.
    *first_token* and *answer* are by the place that answered, and `all`. *error_budget* is the share of it that was used, None without one.
    """

    requests: int
    answered: int
    refused: int
    degraded: int
    doubtful: int
    fallbacks: int
    handed_over: int
    hit_rate: float
    offload_rate: float
    first_token: dict[str, Percentiles]
    answer: dict[str, Percentiles]
    reasons: dict[str, int]
    gpu_seconds: float
    gpu_seconds_held: float
    gpu_seconds_per_1000: float
    cost: float
    cost_per_1000: float
    price_paid: float
    error_budget: float | None
    alert: bool
    missed: tuple[Miss, ...]
    evidence: str = EVIDENCE

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def percentiles(times: array[float]) -> Percentiles | None:
    """Of *times*; None where there are none."""
    if not times:
        return None
    ordered = sorted(times)
    last = len(ordered)
    p50, p95, p99 = (ordered[min(last, max(1, -(-last * per // 100))) - 1] for per in (50, 95, 99))
    return Percentiles(last, p50, p95, p99)


def summary(outcome: Outcome, setting: Setting) -> Summary:
    """The figures of *outcome*, which came of *setting*."""
    answered = {route: len(times) for route, times in outcome.answers.items()}
    all_answered = sum(answered.values())
    requests = all_answered + outcome.refused
    first, answer = _by_place(outcome.first_tokens), _by_place(outcome.answers)
    pool = setting.pool
    held = setting.replicas * outcome.end
    cost = held / 3600 * pool.gpu_hour if pool is not None else 0.0
    objectives = setting.policy.objectives
    failed = outcome.refused / requests if requests else 0.0
    budget = None
    if objectives.availability is not None and objectives.availability < 1:
        budget = failed / (1 - objectives.availability)
    return Summary(
        requests=requests,
        answered=all_answered,
        refused=outcome.refused,
        degraded=outcome.degraded,
        doubtful=outcome.doubtful,
        fallbacks=outcome.fallbacks,
        handed_over=outcome.handed_over,
        hit_rate=answered[Route.PI] / requests if requests else 0.0,
        offload_rate=(answered[Route.POOL] + answered[Route.BOTH]) / requests if requests else 0.0,
        first_token=first,
        answer=answer,
        reasons=dict(sorted(outcome.reasons.items(), key=lambda item: (-item[1], item[0]))),
        gpu_seconds=outcome.gpu_seconds,
        gpu_seconds_held=held,
        gpu_seconds_per_1000=outcome.gpu_seconds / requests * 1000 if requests else 0.0,
        cost=cost,
        cost_per_1000=cost / requests * 1000 if requests else 0.0,
        price_paid=outcome.pool_tokens / 1000 * pool.price if pool is not None else 0.0,
        error_budget=budget,
        alert=budget is not None and objectives.alert_at is not None and budget >= objectives.alert_at,
        missed=_missed(objectives, first, 1 - failed),
    )


def _by_place(times: dict[Route, array[float]]) -> dict[str, Percentiles]:
    together = array("d")
    for of_route in times.values():
        together.extend(of_route)
    named = {**{str(route): of_route for route, of_route in times.items()}, "all": together}
    return {name: found for name, of_name in named.items() if (found := percentiles(of_name)) is not None}


def _missed(objectives: Objectives, first: dict[str, Percentiles], available: float) -> tuple[Miss, ...]:
    edge, whole = first.get(str(Route.PI)), first.get("all")
    found = (
        ("objectives.edge.p50", objectives.edge_p50, edge.p50 if edge is not None else None),
        ("objectives.edge.p95", objectives.edge_p95, edge.p95 if edge is not None else None),
        ("objectives.site.p95", objectives.site_p95, whole.p95 if whole is not None else None),
    )
    late = [
        Miss(name, promised, value)
        for name, promised, value in found
        if promised is not None and value is not None and value > promised
    ]
    if objectives.availability is not None and available < objectives.availability:
        late.append(Miss("objectives.site.availability", objectives.availability, available))
    return tuple(late)
