"""A fleet run in waves: each wave is converged, then its checks must hold; else the run stops and later waves are not touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pinion.checks.model import Finding, Outcome
from pinion.drivers.hosts.answers import HostResult

#: Converges hosts; their results by name. A host that could not be reached has an error.
Converge = Callable[[Sequence[str]], Mapping[str, HostResult]]
#: Runs the checks of hosts.
Verify = Callable[[Sequence[str]], Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run stopped at a host, or would have: *what* is what it said, or the check that does not hold."""

    host: str
    what: str


@dataclass(slots=True)
class Wave:
    """One wave: its hosts, their results, what stopped the run in it, how many checks held, and which wait for a boot."""

    hosts: tuple[str, ...]
    results: dict[str, HostResult] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)
    proved: int = 0
    waiting: list[Stop] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """Hosts on which something was changed."""
        return sum(bool(result.changes) for result in self.results.values())

    @property
    def after_boot(self) -> int:
        """Checks that wait for a boot."""
        return len(self.waiting)


@dataclass(slots=True)
class Rollout:
    """A whole run: the waves that were begun, and the hosts of those that were not."""

    waves: list[Wave] = field(default_factory=list)
    untouched: tuple[str, ...] = ()

    @property
    def stops(self) -> list[Stop]:
        """What stopped it; empty when every wave is done."""
        return [stop for wave in self.waves for stop in wave.stops]

    @property
    def results(self) -> dict[str, HostResult]:
        """The results of all hosts that were touched."""
        return {name: result for wave in self.waves for name, result in wave.results.items()}


class Progress:
    """Hears of each wave as it goes; this one says nothing."""

    def begins(self, number: int, of: int, hosts: Sequence[str]) -> None:
        """A wave begins."""

    def verifies(self, wave: Wave) -> None:
        """Its hosts are converged; their checks begin."""

    def ended(self, number: int, of: int, wave: Wave) -> None:
        """A wave has ended."""


def roll_out(
    waves: Sequence[tuple[str, ...]],
    converge: Converge,
    verify: Verify | None,
    progress: Progress | None = None,
    *,
    changed_only: bool = False,
) -> Rollout:
    """Converge *waves* one after the other; stop at the first with a host that failed or a check that does not hold.

    Without *verify* only the hosts' own answers count. *changed_only*: only the checks of hosts on which something was changed.
    """
    said = progress or Progress()
    run = Rollout()
    for number, hosts in enumerate(waves, start=1):
        said.begins(number, len(waves), hosts)
        wave = Wave(hosts)
        run.waves.append(wave)
        wave.results = dict(converge(hosts))
        for name in hosts:
            answered = wave.results.setdefault(name, HostResult(errors=["no answer"]))
            wave.stops += [Stop(name, error) for error in answered.errors[:1]]
        if verify is not None:
            said.verifies(wave)
            done = {name: wave.results[name] for name in hosts if not wave.results[name].errors}
            judged = [name for name, result in done.items() if result.changes or not changed_only]
            _judge(wave, verify(judged) if judged else ())
        said.ended(number, len(waves), wave)
        if wave.stops:
            break
    run.untouched = tuple(name for hosts in waves[len(run.waves) :] for name in hosts)
    return run


def _judge(wave: Wave, findings: Sequence[Finding]) -> None:
    """Count what holds; what does not, or could not be tried, stops the run.

    Not so a claim that waits for a boot, as long as the host says that it waits for one because of what the claim hangs on.
    """
    for finding in findings:
        if finding.outcome is Outcome.PROVED:
            wave.proved += 1
            continue
        check = finding.check
        found = Stop(check.subject, f"check {check.id}: {check.claim} {check.expected!r}, found {finding.found!r}")
        asks = wave.results.get(check.subject, HostResult()).reboot
        waits = finding.outcome is Outcome.FAILED and not {*check.after_boot}.isdisjoint(asks)
        (wave.waiting if waits else wave.stops).append(found)
