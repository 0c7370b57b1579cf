"""The routing policy: what a site says about where requests are answered. Plain data, frozen; a wrong value is refused when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

#: The format of the policy document. A program refuses a document of a format that it does not know.
FORMAT = 1
#: What pydantic is told where a document is read: unknown keys are refused, and infinities and NaN have a text in JSON.
STRICT: dict[str, Any] = {"extra": "forbid", "ser_json_inf_nan": "strings"}


class Mode(StrEnum):
    """How Pi and pool share the work."""

    LOCAL_FIRST = "local-first"  #: the Pi answers what it can answer well and in time, the pool the rest; decided before the first token
    ENSEMBLE = "ensemble"  #: the kind of the request decides; the load of the Pi still counts
    EARLY_EXIT = (
        "early-exit"  #: the Pi starts, and hands over when the confidence of its answer falls below the policy's
    )
    SPECULATIVE = "speculative"  #: the Pi drafts while the pool works on the same request


class Kind(StrEnum):
    """What a request is for."""

    CHAT = "chat"
    CLASSIFICATION = "classification"
    EXTRACTION = "extraction"
    CODE = "code"
    REASONING = "reasoning"
    BATCH = "batch"  #: nobody waits for the first token


class Privacy(StrEnum):
    """How far a prompt may go."""

    ANY = "any"
    ON_SITE = "on-site"  #: no farther than the site's own machines
    ON_DEVICE = "on-device"  #: not off the Pi that it came to


class Hint(StrEnum):
    """Where the client would have its answer made."""

    NONE = "none"
    PI = "pi"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class ModelForms:
    """A model as clients name it, and the artefacts that answer for it: on Pis (*edge*) and in the pool (*pool*); None: not there."""

    name: str
    edge: str | None = None
    pool: str | None = None
    runtime: str | None = None
    replicas: int = 0

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a site promises. Latencies are times to the first token, in seconds, from the arrival of the request; None: no promise.

    *availability* is the share of requests that are answered, *alert_at* the share of the error budget at which an alert fires.
    """

    edge_p50: float | None = None
    edge_p95: float | None = None
    site_p95: float | None = None
    availability: float | None = None
    alert_at: float | None = None

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """When a request stays on the Pi and when it goes to the pool.

    Attributes:
        site: the site that it is for.
        version: 0 as planned; a published policy has a number that grows with each publication.
        mode: used for requests that ask for none.
        prompt_tokens: longest prompt that a Pi takes, in tokens.
        queue_wait: longest wait for a decode slot of a Pi, in seconds.
        cpu: use of a Pi's CPU by all but the inference server, 0 to 1, above which requests go to the pool.
        confidence: confidence, 0 to 1, below which the pool answers.
        local_tokens: longest answer that a Pi gives, in tokens.
        speculative_tokens: tokens that a Pi drafts before its confidence is looked at (early exit) or while the pool works (speculative).
        pool_timeout: predicted time to the pool's first token, in seconds, from which on the pool counts as unreachable.
        temperature: degrees Celsius of the Pi's processor from which on requests go to the pool. Default: 80, where a Pi begins to throttle
            (Raspberry Pi documentation, "Frequency management and thermal control").
        stale_after: age in seconds from which on a measurement tells nothing. Default: three of the pool's announcements, one a second.
        pool_kinds: kinds of request that the pool answers in the mode `ensemble`; `batch` goes there in every mode.
        objectives: what the site promises.
        models: the site's models; the first is meant where a request names none.

    Raises `ValueError`, with the key and what it may be, when it is made with anything else.
    """

    site: str
    version: int = 0
    format: int = FORMAT
    mode: Mode = Mode.LOCAL_FIRST
    prompt_tokens: int = 64
    queue_wait: float = 0.1
    cpu: float = 0.8
    confidence: float = 0.85
    local_tokens: int = 64
    speculative_tokens: int = 32
    pool_timeout: float = 5.0
    temperature: float = 80.0
    stale_after: float = 3.0
    pool_kinds: tuple[Kind, ...] = (Kind.CODE, Kind.REASONING)
    objectives: Objectives = Objectives()
    models: tuple[ModelForms, ...] = ()

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    def __post_init__(self) -> None:
        for name, least in (("version", 0), ("prompt_tokens", 1), ("local_tokens", 1), ("speculative_tokens", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)} is less than {least}")
        for name in ("queue_wait", "pool_timeout", "temperature", "stale_after"):
            _need(name, getattr(self, name), math.inf)
        for name in ("cpu", "confidence"):
            _need(name, getattr(self, name), 1.0)
        for name in ("edge_p50", "edge_p95", "site_p95"):
            _need(f"objectives.{name}", getattr(self.objectives, name), math.inf)
        for name in ("availability", "alert_at"):
            _need(f"objectives.{name}", getattr(self.objectives, name), 1.0)
        names = [model.name for model in self.models]
        if len(set(names)) != len(names):
            raise ValueError("models: a name stands there more than once")


def _need(name: str, value: float | None, most: float) -> None:
    """Refuse what is no finite number from 0 to *most*; None is no statement."""
    if value is not None and not (0 <= value <= most and math.isfinite(value)):
        upper = f" to {most:g}" if math.isfinite(most) else " up"
        raise ValueError(f"{name}: {value} is not a number from 0{upper}")
