"""A scenario: what a simulation assumes that no site file states. Every key has a default; a file states what differs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from pinion.routing.policy import Hint, Kind, Mode, Privacy
from pinion.site import quantities
from pinion.site.catalog.inference import rates
from pinion.site.encoding import MAXIMUM_BYTES
from pinion.site.errors import Report
from pinion.site.statement import Statement
from pinion.site.tree import Mapping, entry_at, parse, plain


def _quantity(parse_text: object) -> BeforeValidator:
    """A validator that turns a written quantity (``80ms``, ``70%``) into its number."""

    def value(written: object) -> object:
        return parse_text(written) if isinstance(written, str) else written  # type: ignore[operator]

    return BeforeValidator(value)


def _published(name: str) -> str:
    """Refuse *name* when no rates of that name were published."""
    if name not in rates():
        raise ValueError(f"no rates '{name[:80]}'; write one of {', '.join(rates())}")
    return name


#: Seconds, written with their unit.
Seconds = Annotated[float, _quantity(quantities.seconds), Field(ge=0, le=31_536_000)]
#: 0 to 1, written as a percentage.
Share = Annotated[float, _quantity(quantities.fraction), Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=1)]


class Tokens(Statement):
    """A length in tokens: lognormal, by its *median* and its 95th percentile."""

    median: Annotated[float, Field(ge=1)]
    p95: Annotated[float, Field(ge=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p95 < self.median:
            raise ValueError(f"p95 ({self.p95:g}) is less than median ({self.median:g}); exchange them")
        return self


class KindOfLoad(Statement):
    """One kind of request, its *share* of all, and how its requests are.

    *hard* is the share whose confidence is below the policy's. A *model* is named by all of them, or (empty) by none.
    """

    kind: Kind = Kind.CHAT
    share: Annotated[float, _quantity(quantities.fraction), Field(gt=0, le=1)] = 1.0
    prompt: Tokens = Tokens(median=24, p95=60)
    answer: Tokens = Tokens(median=24, p95=60)
    hard: Share = 0.1
    model: str = ""
    hint: Hint = Hint.NONE
    privacy: Privacy = Privacy.ANY
    mode: Mode | None = None
    consent: bool = True
    deadline: Seconds | None = None


class Bursts(Statement):
    """Every *every* seconds the rate is *factor* times as high for *length* seconds."""

    factor: Annotated[float, Field(ge=1)] = 5.0
    every: Annotated[float, _quantity(quantities.seconds), Field(gt=0)] = 60.0
    length: Seconds = 5.0


class Diurnal(Statement):
    """A sine with the *period*: the rate falls to the share *trough* of its peak."""

    period: Annotated[float, _quantity(quantities.seconds), Field(gt=0)] = 86_400.0
    trough: Share = 0.2


class Load(Statement):
    """Requests from nobody in particular: a Poisson process with *rate* requests a second for the whole site, over all Pis alike.

    With *bursts* or *diurnal* its rate changes with time; *rate* is then that outside bursts, or that of the peak of the day.
    """

    rate: Annotated[float, Field(gt=0, le=1e6)] = 10.0
    kinds: Annotated[tuple[KindOfLoad, ...], Field(min_length=1)] = (KindOfLoad(),)
    bursts: Bursts | None = None
    diurnal: Diurnal | None = None


class Pool(Statement):
    """The GPU pool: *replicas*, each one GPU that works on *slots* requests at once.

    Attributes:
        replicas: number of copies; None: as many as the site's models state.
        service: seconds that one request takes a slot, on average.
        varies: how that differs: not at all (`constant`), exponentially, or with the answer's length (the load's average takes `service`).
        first_token: seconds of it until the first token.
        window: a request waits this long for others before it is worked on, or until a GPU is full (a batching window).
        on_site: whether it stands at the site.
        price: what the user pays for 1,000 tokens.
        gpu_hour: what one GPU costs an hour, used or not.
        news: seconds between two of its announcements to the Pis.
        detection: seconds until those who wait for a pool that is dead, or behind a cut link, know it.
    """

    replicas: Whole | None = None
    slots: Whole = 8
    service: Annotated[float, _quantity(quantities.seconds), Field(gt=0, le=3600)] = 0.2
    varies: Literal["constant", "exponential", "answer"] = "exponential"
    first_token: Seconds = 0.02
    window: Seconds = 0.0
    on_site: bool = True
    price: Annotated[float, Field(ge=0)] = 0.0
    gpu_hour: Annotated[float, Field(ge=0)] = 0.0
    news: Annotated[float, _quantity(quantities.seconds), Field(gt=0)] = 1.0
    detection: Seconds = 0.5


class Link(Statement):
    """One hop of the way to the pool."""

    rtt: Seconds = 0.001
    loss: Share = 0.0


class Fault(Statement):
    """From *at* to *until*, seconds from the start, the pool is dead or the link is cut."""

    what: Literal["pool-dead", "link-cut"]
    at: Seconds
    until: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until <= self.at:
            raise ValueError(f"it ends (until {self.until:g} s) before it begins (at {self.at:g} s); exchange them")
        return self


class Scenario(Statement):
    """All that is assumed.

    Attributes:
        duration: seconds during which requests arrive.
        pis: number of Pis; None: those of the site.
        rates: how fast they are: a name of the catalogue of published rates.
        path: the hops from a Pi to the pool.
    """

    duration: Annotated[float, _quantity(quantities.seconds), Field(gt=0)] = 600.0
    pis: Annotated[int, Field(ge=1, le=100_000)] | None = None
    rates: Annotated[str, AfterValidator(_published)] = "qwen2.5-0.5b-q4_0"
    mode: Mode | None = None
    load: Load = Load()
    path: tuple[Link, ...] = (Link(),)
    pool: Pool | None = None
    faults: tuple[Fault, ...] = ()

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Self:
        for one, other in combinations(self.faults, 2):
            if one.what == other.what and one.at < other.until and other.at < one.until:
                raise ValueError(
                    f"faults: {one.what} is stated twice for {max(one.at, other.at):g} s; make one of both"
                )
        return self


class ScenarioError(ValueError):
    """What is wrong with a scenario: every problem with its file, line, key and fix."""


def shipped() -> tuple[str, ...]:
    """The names of the scenarios that come with Pinion."""
    folder = resources.files(__package__) / "scenarios"
    return tuple(sorted(file.name.removesuffix(".yml") for file in folder.iterdir() if file.name.endswith(".yml")))


def load_scenario(written: str) -> Scenario:
    """The scenario in the file *written*, or the shipped one of that name. Raises `ScenarioError`, and `OSError` of the file."""
    if written in shipped():
        data = (resources.files(__package__) / "scenarios" / f"{written}.yml").read_bytes()
    else:
        path = Path(written)
        if not path.exists() and "/" not in written and "." not in written:
            raise ScenarioError(f"no scenario '{written}': write a path, or one of {', '.join(shipped())}")
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    return read_scenario(data, written)


def read_scenario(data: bytes, file: str) -> Scenario:
    """As `load_scenario`, for the content *data* of a file that messages call *file*."""
    report = Report(file=file)
    root = parse(data, report)
    if root is None or report.problems:
        raise ScenarioError("\n".join(map(str, report.problems)))
    try:
        found = Scenario.model_validate(plain(root))
    except ValidationError as wrong:
        raise ScenarioError("\n".join(_told(wrong, root, file))) from None
    if abs(sum(kind.share for kind in found.load.kinds) - 1) > 1e-6:
        entry = entry_at(root, ("load", "kinds"))
        place = f"{file}:{entry.line}:{entry.column}" if entry is not None else file
        raise ScenarioError(f"{place} load.kinds: the shares do not add up to 100%; change them until they do")
    return found


def _told(wrong: ValidationError, root: Mapping, file: str) -> Iterator[str]:
    """Each problem with its place. That a list is too short, because its only item is wrong, is none."""
    places = [error["loc"] for error in wrong.errors()]
    for error in wrong.errors():
        path = error["loc"]
        if any(len(other) > len(path) and other[: len(path)] == path for other in places):
            continue
        entry = next((at for depth in range(len(path), 0, -1) if (at := entry_at(root, path[:depth]))), None)
        place = f"{file}:{entry.line}:{entry.column}" if entry is not None else file
        yield f"{place} {'.'.join(map(str, path)) or 'the file'}: {error['msg']}"
