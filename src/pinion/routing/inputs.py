"""What a decision is made from: the request, and the state of Pi, pool and the way between them. Plain data; `decide` only reads it.

Numbers may be anything: telemetry lies. What is not a number from 0 up counts as the worst that it could be.
They are not frozen: one of each is made for every request, and that costs thrice as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pinion.routing.policy import STRICT, Hint, Kind, Mode, Privacy


@dataclass(slots=True)
class Request:
    """What is known of a request when it is decided.

    Attributes:
        prompt_tokens: length of the prompt, counted by the model's own tokenizer.
        answer_tokens: longest answer that the client takes, in tokens.
        model: the model as clients name it; empty for the site's first.
        confidence: estimate, 0 to 1, that the Pi's answer is as good as the pool's; None while there is none. In the mode `early-exit` the
            runtime gives it while it answers, and the request is decided again.
        deadline: seconds from now until the first token is due; None: what the site promises.
        consent: whether the user lets the prompt leave the Pi.
        budget: most that the answer may cost, in the currency of the pool's price; None: no limit.
        mode: None for the policy's.
    """

    prompt_tokens: int
    answer_tokens: int
    model: str = ""
    kind: Kind = Kind.CHAT
    hint: Hint = Hint.NONE
    privacy: Privacy = Privacy.ANY
    mode: Mode | None = None
    confidence: float | None = None
    deadline: float | None = None
    consent: bool = True
    budget: float | None = None

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True, slots=True)
class PiModel:
    """A model that a Pi has loaded: tokens a second that it reads (*prefill*) and writes (*decode*) there, and the *context* in tokens.

    *start* is what passes before the first token of any prompt, in seconds.
    """

    prefill: float
    decode: float
    context: int
    start: float = 0.0

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(slots=True)
class PiState:
    """The Pi that the request came to.

    Attributes:
        models: what it has loaded, by the name that clients use.
        free_slots: requests that it can begin to answer at once.
        queue_wait: seconds until a slot is free, where none is.
        cpu: use of its CPU, 0 to 1, by all but the inference server: one answer with four threads fills all four cores.
        temperature: of its processor, in degrees Celsius.
        throttled: whether its firmware has lowered the clock.
        age: seconds since this was measured; negative when the clock jumped.
    """

    models: Mapping[str, PiModel]
    free_slots: int
    queue_wait: float = 0.0
    cpu: float = 0.0
    temperature: float = 0.0
    throttled: bool = False
    age: float = 0.0

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of the way to the pool: round-trip time in seconds, and the share of packets that it loses, 0 to 1."""

    rtt: float
    loss: float = 0.0

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(slots=True)
class PoolState:
    """The pool of GPU servers as it last announced itself.

    Attributes:
        models: the models that it serves, by the name that clients use.
        healthy: whether it answers (false: its circuit breaker is open).
        on_site: whether it is a machine of the site.
        queue_wait: seconds that a request waits there before it is worked on.
        first_token: seconds from then to its first token.
        price: of 1,000 tokens, prompt and answer together, in the site's currency.
        age: seconds since this was announced; negative when the clock jumped.
    """

    models: tuple[str, ...]
    healthy: bool = True
    on_site: bool = True
    queue_wait: float = 0.0
    first_token: float = 0.0
    price: float = 0.0
    age: float = 0.0

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(slots=True)
class State:
    """All that a Pi knows when it decides: itself, the *pool* (None: it never heard of one), the *path* there hop by hop.

    *budget* is what the user's account has left, None for no limit.
    """

    pi: PiState
    pool: PoolState | None = None
    path: tuple[Hop, ...] = field(default=())
    budget: float | None = None

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
