"""The events: requests arrive, Pis and the pool work on them, links and the pool fail. One seed, one result.

Invariants:

* Every request ends exactly once: answered on a Pi, by both, in the pool, or refused.
* Where it goes is `decide`'s alone, asked with what its Pi knows at that moment: the pool's last announcement, not the pool.
* A Pi works on `slots` requests at once and keeps the others in order; so does the pool.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import cast

from pinion.routing.decision import RETRANSMISSION, Decision, Route
from pinion.routing.inputs import Hop, PiModel, PiState, PoolState, Request, State
from pinion.routing.policy import Mode, RoutingPolicy
from pinion.simulation.load import Arrival
from pinion.simulation.outcome import Outcome
from pinion.simulation.scenario import Pool
from pinion.simulation.setting import Setting

Decide = Callable[[Request, State, RoutingPolicy], Decision]


@dataclass(slots=True, eq=False)
class _Job:
    """One request on its way. *first* is when its client sees a token, *pool_first* when one of the pool's will come.

    *attempt* grows with each place that it is given to: what was under way for an earlier one counts no more.
    *lost* is the attempt whose answer cannot come, because the pool died or the link was cut.
    """

    request: Request
    pi: int
    arrived: float
    confidence: float | None
    first: float = math.inf
    pool_first: float = math.inf
    attempt: int = 0
    lost: int = -1
    sent: float = 0.0
    done: bool = False
    route: Route = Route.PI


@dataclass(slots=True, eq=False)
class _Task:
    """Work on a Pi: *tokens* of an answer, done at *end*; *final*: the whole answer; *checked*: its confidence is looked at then."""

    job: _Job
    tokens: int
    final: bool
    checked: bool
    work: float
    end: float = 0.0


@dataclass(slots=True, eq=False)
class _Pi:
    """One Pi: when its running tasks *ends*, what waits, the seconds of work that wait, and when the pool last failed it."""

    ends: list[float] = field(default_factory=list)
    queue: deque[_Task] = field(default_factory=deque)
    backlog: float = 0.0
    failed: float = -1.0


class Simulation:
    """One run over *setting*, routed by *decide*; *seed* is for what is drawn on the way (losses, the pool's times)."""

    def __init__(self, setting: Setting, decide: Decide, seed: int) -> None:
        self._set, self._decide, self._policy = setting, decide, setting.policy
        self._chance = random.Random(seed)
        self._pis = [_Pi() for _ in range(setting.pis)]
        self._events: list[tuple[float, int, Callable[..., None], object]] = []
        self._count, self._now, self._open, self._under_way = 0, 0.0, True, 0
        self.outcome = Outcome()
        self._pi_state = PiState(setting.models, 0)
        hops = tuple(Hop(link.rtt, link.loss) for link in setting.path)
        self._loss = 1 - math.prod(1 - hop.loss for hop in hops)
        self._half = sum(hop.rtt for hop in hops) / 2
        self._state = State(self._pi_state, None, hops)
        self._alive, self._linked, self._announced = setting.pool is not None, True, 0.0
        self._well, self._ill = PoolState(setting.served), PoolState(setting.served, healthy=False)
        self._capacity, self._running, self._life = 0, 0, 0
        self._waiting: deque[tuple[_Job, int]] = deque()
        self._gate: list[tuple[_Job, int]] = []
        self._sent: dict[_Job, None] = {}

    def run(self, arrivals: Iterable[Arrival]) -> Outcome:
        """Simulate *arrivals*, which come in order of time, to the end of the last request."""
        pool = self._set.pool
        if pool is not None:
            self._capacity = self._set.replicas * pool.slots
            for state in (self._well, self._ill):
                state.on_site, state.first_token, state.price = pool.on_site, pool.first_token, pool.price
            self._announce(None)
        for at, what, begins in self._set.faults:
            self._at(at, self._fault, (what, begins))
        events = self._events
        for arrival in arrivals:
            while events and events[0][0] <= arrival.at:
                self._next()
            self._now = arrival.at
            self._under_way += 1
            self._route(_Job(arrival.request, arrival.pi, arrival.at, arrival.confidence))
        self._open = False
        while events and self._under_way:
            self._next()
        self.outcome.end = self._now
        return self.outcome

    def _next(self) -> None:
        self._now, _, handle, what = heappop(self._events)
        handle(what)

    def _at(self, time: float, handle: Callable[..., None], what: object) -> None:
        self._count += 1
        heappush(self._events, (time, self._count, handle, what))

    # --- where a request goes --------------------------------------------------------------------------------------------

    def _route(self, job: _Job) -> None:
        """Ask where *job* goes, with what its Pi knows now, and have it go there."""
        pi, known = self._pis[job.pi], self._pi_state
        known.free_slots = self._set.slots - len(pi.ends)
        known.queue_wait = 0.0 if known.free_slots > 0 else min(pi.ends) - self._now + pi.backlog / self._set.slots
        if self._set.pool is not None:
            pool = self._ill if pi.failed >= self._announced else self._well
            pool.age = self._now - self._announced
            self._state.pool = pool
        found = self._decide(job.request, self._state, self._policy)
        self.outcome.reasons[found.reasons[0]] += 1
        self.outcome.degraded += found.degraded
        job.route = route = found.route
        if route is Route.PI:
            self._on_pi(job)
        elif route is Route.POOL:
            self._send(job)
        elif route is Route.BOTH:
            tokens = min(self._policy.speculative_tokens, job.request.answer_tokens)
            self._give(pi, job, tokens, final=False, checked=False)
            self._send(job)
        else:
            self.outcome.refused += 1
            self._end(job)

    def _end(self, job: _Job) -> None:
        job.done = True
        job.attempt += 1
        self._under_way -= 1
        self._sent.pop(job, None)

    def _answered(self, job: _Job, at: float) -> None:
        self.outcome.first_tokens[job.route].append(job.first)
        self.outcome.answers[job.route].append(at - job.arrived)
        self._end(job)

    # --- a Pi ----------------------------------------------------------------------------------------------------------

    def _on_pi(self, job: _Job) -> None:
        request, policy = job.request, self._policy
        early = (request.mode or policy.mode) is Mode.EARLY_EXIT and request.confidence is None
        doubtful = early and job.confidence is not None and job.confidence < policy.confidence
        tokens = min(policy.speculative_tokens, request.answer_tokens) if doubtful else request.answer_tokens
        self._give(self._pis[job.pi], job, tokens, final=not doubtful, checked=doubtful)

    def _give(self, pi: _Pi, job: _Job, tokens: int, *, final: bool, checked: bool) -> None:
        model = self._model(job.request)
        work = model.start + job.request.prompt_tokens / model.prefill + tokens / model.decode
        task = _Task(job, tokens, final, checked, work)
        if len(pi.ends) < self._set.slots:
            self._begin(pi, task)
        else:
            pi.queue.append(task)
            pi.backlog += work

    def _model(self, request: Request) -> PiModel:
        return self._set.models[request.model or self._policy.models[0].name]

    def _begin(self, pi: _Pi, task: _Task) -> None:
        job, model = task.job, self._model(task.job.request)
        first = self._now + model.start + job.request.prompt_tokens / model.prefill - job.arrived
        job.first = min(job.first, first)
        task.end = self._now + task.work
        pi.ends.append(task.end)
        self._at(task.end, self._pi_done, task)

    def _pi_done(self, task: _Task) -> None:
        job = task.job
        pi = self._pis[job.pi]
        if task.checked and not job.done:
            job.request = _with_confidence(job.request, job.confidence)
            job.route = self._again(job)
            if job.route is Route.PI:
                task.checked, task.final = False, True
                rest = (job.request.answer_tokens - task.tokens) / self._model(job.request).decode
                pi.ends[pi.ends.index(task.end)] = task.end = self._now + rest
                self._at(task.end, self._pi_done, task)
                return
            self.outcome.handed_over += 1
            self._send(job)
        elif task.final:
            self.outcome.doubtful += job.confidence is not None and job.confidence < self._policy.confidence
            self._answered(job, self._now)
        pi.ends.remove(task.end)
        while pi.queue and len(pi.ends) < self._set.slots:
            following = pi.queue.popleft()
            pi.backlog -= following.work
            if following.final or following.checked or not following.job.done:
                self._begin(pi, following)

    def _again(self, job: _Job) -> Route:
        """Where *job* goes on, now that its confidence is known: its own slot is free for it."""
        known, pi = self._pi_state, self._pis[job.pi]
        known.free_slots, known.queue_wait = 1, 0.0
        if self._set.pool is None:
            return Route.PI
        pool = self._ill if pi.failed >= self._announced else self._well
        pool.age = self._now - self._announced
        self._state.pool = pool
        found = self._decide(job.request, self._state, self._policy)
        self.outcome.reasons[found.reasons[0]] += 1
        return Route.POOL if found.route is Route.POOL else Route.PI

    # --- the way to the pool, and back ---------------------------------------------------------------------------------

    def _send(self, job: _Job) -> None:
        job.attempt += 1
        job.sent, job.pool_first = self._now, math.inf
        self._sent[job] = None
        if not self._linked or self._loss >= 1:
            known = min(cast("Pool", self._set.pool).detection, self._policy.pool_timeout)
            self._at(self._now + known, self._fall_back, (job, job.attempt))
            return
        delay = self._half
        while self._loss and self._chance.random() < self._loss:
            delay += RETRANSMISSION
        self._at(self._now + delay, self._at_pool, (job, job.attempt))

    def _fall_back(self, ticket: tuple[_Job, int]) -> None:
        """The pool has failed *ticket*'s request: its Pi knows, and looks for another place."""
        job, attempt = ticket
        if job.attempt != attempt:
            return
        job.attempt += 1
        self._sent.pop(job, None)
        self._pis[job.pi].failed = self._now
        self.outcome.fallbacks += 1
        self._route(job)

    # --- the pool -----------------------------------------------------------------------------------------------------

    def _at_pool(self, ticket: tuple[_Job, int]) -> None:
        pool = cast("Pool", self._set.pool)
        if ticket[0].attempt != ticket[1]:
            return
        if not self._alive:
            self._at(self._now + pool.detection, self._fall_back, ticket)
        elif pool.window:
            self._gate.append(ticket)
            if len(self._gate) == 1:
                self._at(self._now + pool.window, self._open_gate, self._life)
            elif len(self._gate) >= pool.slots:
                self._open_gate(self._life)
        else:
            self._take(ticket)

    def _open_gate(self, life: int) -> None:
        """The batching window is over, or a batch is full."""
        if life == self._life:
            batch, self._gate = self._gate, []
            for ticket in batch:
                self._take(ticket)

    def _take(self, ticket: tuple[_Job, int]) -> None:
        if self._running < self._capacity:
            self._work(ticket)
        else:
            self._waiting.append(ticket)
            self._at(ticket[0].sent + self._policy.pool_timeout, self._give_up, ticket)

    def _give_up(self, ticket: tuple[_Job, int]) -> None:
        """A request that the pool has not begun in time."""
        job, attempt = ticket
        if job.attempt == attempt and job.pool_first > self._now - job.arrived:
            self._fall_back(ticket)

    def _work(self, ticket: tuple[_Job, int]) -> None:
        job, pool = ticket[0], cast("Pool", self._set.pool)
        if pool.varies == "exponential":
            takes = self._chance.expovariate(1 / pool.service)
        elif pool.varies == "answer":
            takes = pool.service * job.request.answer_tokens / self._set.mean_answer
        else:
            takes = pool.service
        self._running += 1
        job.pool_first = self._now + min(pool.first_token, takes) + self._half - job.arrived
        self._at(self._now + takes, self._pool_done, (job, ticket[1], self._life, takes))

    def _pool_done(self, ended: tuple[_Job, int, int, float]) -> None:
        job, attempt, life, took = ended
        if life != self._life:
            return
        pool = cast("Pool", self._set.pool)
        self._running -= 1
        self.outcome.gpu_seconds += took / pool.slots
        if job.attempt == attempt != job.lost:
            self.outcome.pool_tokens += job.request.prompt_tokens + job.request.answer_tokens
            job.first = min(job.first, job.pool_first)
            self._answered(job, self._now + self._half)
        while self._waiting and self._running < self._capacity:
            following = self._waiting.popleft()
            if following[0].attempt == following[1]:
                self._work(following)

    def _announce(self, _: None) -> None:
        """The pool tells its state to all Pis, while it lives and they can hear it."""
        pool = cast("Pool", self._set.pool)
        if self._alive and self._linked:
            self._announced = self._now
            full = self._running >= self._capacity
            wait = (len(self._waiting) + full) * pool.service / self._capacity + pool.window
            self._well.queue_wait = self._ill.queue_wait = wait
        if self._open or self._under_way:
            self._at(self._now + pool.news, self._announce, None)

    def _fault(self, fault: tuple[str, bool]) -> None:
        """Something breaks or is mended."""
        what, begins = fault
        pool = self._set.pool
        if pool is None:
            return
        if what == "pool-dead":
            self._alive = not begins
            if begins:
                self._life += 1
                self._running = 0
                self._waiting.clear()
                self._gate.clear()
        else:
            self._linked = not begins
        if begins:
            for job in list(self._sent):
                if (
                    job.lost != job.attempt and job.pool_first <= self._now - job.arrived
                ):  # seen already; a later one never comes
                    job.first = min(job.first, job.pool_first)
                job.pool_first, job.lost = math.inf, job.attempt
                self._at(self._now + pool.detection, self._fall_back, (job, job.attempt))


def _with_confidence(request: Request, confidence: float | None) -> Request:
    """*request* with what the runtime reports of its answer."""
    return Request(
        request.prompt_tokens,
        request.answer_tokens,
        request.model,
        request.kind,
        request.hint,
        request.privacy,
        request.mode,
        confidence,
        request.deadline,
        request.consent,
        request.budget,
    )
