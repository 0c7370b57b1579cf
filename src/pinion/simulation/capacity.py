"""How many GPUs and which link a load needs, by queueing formulas: the pool as an M/M/c queue.

Requests arrive as a Poisson process and take a slot for an exponential time; Erlang C is then the share that must wait (A. K. Erlang, 1917;
L. Kleinrock, Queueing Systems, volume 1, 1975, section 3.4). Offered load in erlangs is rate times service time (Little's law).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from pinion.simulation import EVIDENCE

#: Ethernet speeds in Mbit/s that a link is chosen from (IEEE 802.3: ab, ae, by, ba).
LINKS = (1_000, 10_000, 25_000, 100_000)
#: No link is planned for more than this share of its speed: bursts, and everything else on it.
FILLED = 0.5
#: More GPUs than these, and the question is another one.
MOST = 100_000


class CapacityError(ValueError):
    """Why no pool can keep a promise, in one line."""


def erlang_b(servers: int, load: float) -> float:
    """The share of requests that find all *servers* busy where none may wait, for *load* erlangs; by the stable recursion."""
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return blocked


def erlang_c(servers: int, load: float) -> float:
    """The share of requests that must wait for one of *servers*, for *load* erlangs; 1 where the load is more than they can do."""
    if load >= servers:
        return 1.0
    blocked = erlang_b(servers, load)
    return servers * blocked / (servers - load * (1 - blocked))


def wait_quantile(servers: int, load: float, service: float, quantile: float) -> float:
    """The wait in seconds that the share *quantile* of requests does not exceed; infinite where the queue grows without end."""
    if load >= servers:
        return math.inf
    waits = erlang_c(servers, load)
    late = 1 - quantile
    return 0.0 if waits <= late else service / (servers - load) * math.log(waits / late)


@dataclass(frozen=True, slots=True)
class Question:
    """A load: *rate* requests a second, the share *local* answered on Pis, and the pool.

    Attributes:
        service: seconds that a request takes a slot of a GPU.
        slots: requests that a GPU works on at once.
        first_token: seconds of the service until the first token.
        rtt: round-trip time to the pool, in seconds.
        p95: the promised 95th percentile of the time to the first token, in seconds.
        prompt, answer: tokens of an average request to the pool.
        token_bytes: bytes on the wire for a token of an answer that is streamed: one event with its JSON. A token of a prompt takes four
            (about four characters of English).
        request_bytes: bytes of headers of request and answer.
    """

    rate: float
    local: float
    service: float
    p95: float
    slots: int = 8
    first_token: float = 0.02
    rtt: float = 0.001
    prompt: float = 64
    answer: float = 64
    token_bytes: float = 250
    request_bytes: float = 2_000


@dataclass(frozen=True, slots=True)
class PoolOf:
    """A pool of *gpus*: the share of its slots in use, the share of requests that wait, and the 95th percentile to the first token.

    The latter is in seconds, infinite where the queue grows without end.
    """

    gpus: int
    used: float
    waiting: float
    p95: float

    def keeps(self, promised: float) -> bool:
        """Whether it keeps the *promised* 95th percentile."""
        return self.p95 <= promised


@dataclass(frozen=True, slots=True)
class Answer:
    """*needed* is the smallest pool that keeps the promise, *one_dead* the same with a GPU less. *all_in_pool* is for all requests.

    One GPU more than *needed* keeps the promise with any one dead. *in_service* are the requests in the pool's hands at once, on average.
    *link_mbits* is what they take of the link, in Mbit/s; *link* the slowest that is enough, None where none is.
    """

    in_service: float
    pool_rate: float
    needed: PoolOf
    one_dead: PoolOf
    all_in_pool: PoolOf
    link_mbits: float
    link: int | None
    evidence: str = EVIDENCE

    def as_dict(self) -> dict[str, object]:
        """For JSON; infinite times are None."""
        found = asdict(self)
        for pool in found.values():
            if isinstance(pool, dict) and math.isinf(pool["p95"]):
                pool["p95"] = None
        return found


def pool_of(gpus: int, question: Question, rate: float) -> PoolOf:
    """What a pool of *gpus* does with *rate* requests a second."""
    load, servers = rate * question.service, gpus * question.slots
    p95 = wait_quantile(servers, load, question.service, 0.95) + question.first_token + question.rtt
    used = load / servers if servers else math.inf
    return PoolOf(gpus, used, erlang_c(servers, load), p95)


def needed(question: Question, rate: float) -> PoolOf:
    """The smallest pool that keeps the promise for *rate* requests a second. `CapacityError` when none can."""
    if question.first_token + question.rtt > question.p95:
        taken = question.first_token + question.rtt
        raise CapacityError(
            f"no number of GPUs gives a first token within {question.p95:g} s: work and way alone take {taken:g} s; promise more"
        )
    low = max(1, math.ceil(rate * question.service / question.slots))
    if low > MOST:
        raise CapacityError(
            f"{rate * question.service:g} requests are in service at once, and {MOST:,} GPUs cannot hold them; ask for less"
        )
    while not (found := pool_of(low, question, rate)).keeps(question.p95):
        low += 1
    return found


def capacity(question: Question) -> Answer:
    """The answer to *question*. `CapacityError` where no pool can keep the promise."""
    rate = question.rate * (1 - question.local)
    smallest = needed(question, rate)
    each = question.request_bytes + 4 * question.prompt + question.token_bytes * question.answer
    mbits = rate * each * 8 / 1e6
    return Answer(
        in_service=rate * question.service,
        pool_rate=rate,
        needed=smallest,
        one_dead=pool_of(smallest.gpus - 1, question, rate),
        all_in_pool=needed(question, question.rate),
        link_mbits=mbits,
        link=next((link for link in LINKS if mbits <= link * FILLED), None),
    )
