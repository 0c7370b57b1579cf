"""What a router tells of itself: Prometheus' metrics, and each decision with what it was made from. Never a word of a prompt."""

from __future__ import annotations

from collections import OrderedDict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pinion.routing.record import Record

#: So many decisions are remembered.
REMEMBERED = 1000
#: Seconds; answers of a Pi take from a tenth of one to minutes.
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Telling:
    """Counters, and the last decisions by their id."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._registry = registry = CollectorRegistry()
        self._decisions = Counter(
            "pinion_router_decisions", "Decisions by route and first reason.", ("route", "reason"), registry=registry
        )
        self._answers = Counter(
            "pinion_router_answers", "Answers by place and HTTP status.", ("place", "status"), registry=registry
        )
        self._failures = Counter(
            "pinion_router_failures", "Places that failed when asked.", ("place",), registry=registry
        )
        self._degraded = Counter(
            "pinion_router_degraded", "Answers of a place that was not the right one.", registry=registry
        )
        self._first = Histogram(
            "pinion_router_first_byte_seconds", "From a request's arrival to the first byte of its answer.", ("place",),
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._pool = Gauge("pinion_router_pool_up", "Whether requests may go to the pool.", registry=registry)
        self._waiting = Gauge(
            "pinion_router_waiting", "Requests that wait for a slot of the engine.", registry=registry
        )
        self._version = Gauge(
            "pinion_router_policy_version", "Version of the policy that holds; 0: none was given.", registry=registry
        )

    def decided(self, identity: str, record: Record) -> None:
        """A decision was made for the request *identity*; a later one for it, after a place failed, takes its place."""
        self._decisions.labels(record.decision.route, record.decision.reasons[0]).inc()
        self._records[identity] = record
        while len(self._records) > REMEMBERED:
            self._records.popitem(last=False)

    def record(self, identity: str) -> Record | None:
        """The decision for the request *identity*, as long as it is remembered."""
        return self._records.get(identity)

    def failed(self, place: str) -> None:
        """A place failed when it was asked."""
        self._failures.labels(place).inc()

    def answered(self, place: str, status: int, seconds: float, *, degraded: bool) -> None:
        """The first byte of an answer came after *seconds*."""
        self._answers.labels(place, str(status)).inc()
        self._first.labels(place).observe(seconds)
        if degraded:
            self._degraded.inc()

    def text(self, *, pool: bool, waiting: int, version: int) -> bytes:
        """Prometheus' text format."""
        self._pool.set(pool)
        self._waiting.set(waiting)
        self._version.set(version)
        return generate_latest(self._registry)
