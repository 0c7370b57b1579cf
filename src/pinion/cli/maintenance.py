"""Commands that work on hosts in waves, drained (`pinion reboot`, `pinion upgrade`): their options, and the frame of such a run."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from pinion.bringup.access import access_of
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.maintenance import LiveMeans, Maintenance, Work
from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.bringup.rollout import Rollout, roll_out
from pinion.bringup.stack_environment import StackError
from pinion.bringup.verification import host_verifier
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.cli.asking import confirm
from pinion.cli.completing import sites
from pinion.cli.hosts import chosen
from pinion.cli.rollout_progress import ScreenProgress
from pinion.drivers.hosts.inventory import login
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.model import HostPlan
from pinion.plan.rollout import waves
from pinion.site.find import repository

#: Seconds that claims have to come true after a boot: timers run first after a minute.
SETTLE = 90.0


@dataclass(frozen=True, slots=True)
class Options:
    """What every such command is told, beside its own options."""

    site: str
    check: bool
    limit: tuple[str, ...]
    no_drain: bool
    lose_pods: bool
    patience: int
    yes: bool
    as_json: bool


def maintenance_options(*, check: str, no_drain: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options of a command that takes `Options` first and its own by name; *check* and *no_drain* say what these two do there."""
    stated = (
        click.argument("site", shell_complete=sites),
        click.option("--check", is_flag=True, help=check),
        click.option(
            "--limit", multiple=True, metavar="PATTERN", help="Only hosts whose name or group matches; may be repeated."
        ),
        click.option("--no-drain", is_flag=True, help=no_drain),
        click.option(
            "--lose-pods",
            is_flag=True,
            help="Go on where pods without a controller, or what pods keep on their node alone (emptyDir), are lost.",
        ),
        click.option(
            "--patience",
            type=click.IntRange(10, 3600),
            default=600,
            show_default=True,
            metavar="SECONDS",
            help="How long a host may take to come back from a reboot.",
        ),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; progress goes to standard error."),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(
            site: str,
            check: bool,
            limit: tuple[str, ...],
            no_drain: bool,
            lose_pods: bool,
            patience: int,
            yes: bool,
            as_json: bool,
            **own: object,
        ) -> None:
            command(Options(site, check, limit, no_drain, lose_pods, patience, yes, as_json), **own)

        for option in reversed(stated):
            gathered = option(gathered)
        return gathered

    return decorate


def tell(text: str) -> None:
    """Progress, on standard error."""
    click.echo(text, err=True)


@contextmanager
def may_be_run_again() -> Iterator[None]:
    """Ends the command in words when something outside did not do its part."""
    try:
        yield
    except (ClusterNodeError, ProgramMissingError, StackError, OSError) as error:
        click.echo(f"Error: {error}\nWhen that is mended, run the same command again: it goes on.", err=True)
        raise SystemExit(COULD_NOT_RUN) from error


@dataclass(frozen=True, slots=True)
class Session:
    """One run of such a command: its *hosts* by name, and the *means* to work on them."""

    options: Options
    plan: Plan
    hosts: Mapping[str, HostPlan]
    means: LiveMeans

    @classmethod
    def begin(cls, options: Options, purpose: str, *, check_asks_cluster: bool) -> Session:
        """Read the site and find its cluster, for a check only where that asks it too.

        Ends the command when a run that drains finds none.
        """
        _, loaded = load_or_exit(options.site, as_json=options.as_json)
        plan = compile_plan(loaded)
        hosts = {host.name: host for host in plan.hosts if host.name in set(chosen(plan, options.limit))}
        kubeconfig = None
        if check_asks_cluster or not options.check:
            with may_be_run_again():
                kubeconfig = kubeconfig_of(plan, needed=not (options.no_drain or options.check))
        return cls(options, plan, hosts, LiveMeans(kubeconfig, purpose, options.lose_pods))

    def maintenance(self) -> Maintenance:
        """The work in waves on the hosts."""
        verify = host_verifier(self.plan, login(), settle=SETTLE, tell=tell)
        return Maintenance(self.hosts, self.means, verify, tell, self.options.patience, drain=not self.options.no_drain)

    def roll_out(
        self, maintenance: Maintenance, due: Sequence[str], others: Sequence[str], work: Work, deed: str
    ) -> tuple[Rollout, bool]:
        """Have *work* done on the hosts *due* in waves, once losses are allowed and *deed* is confirmed; of *others* those are let go that
        an earlier run has left cordoned. What came of it, and whether all of these are well. Raises `ClusterNodeError`.
        """
        options = self.options
        refuse_losses(maintenance.losses(due), allowed=options.lose_pods)
        confirm(f"{deed} {len(due)} hosts", yes=options.yes or not due)
        well, unwell = maintenance.take_up(others)
        for name in well:
            tell(f"{name}: uncordoned; an earlier run had left it cordoned")
        for name in unwell:
            tell(
                f"{name}: stays cordoned, as an earlier run left it: its checks do not hold; pinion verify {self.plan.site}"
            )
        parts = waves([self.hosts[name] for name in due], self.plan.rollout)
        with ScreenProgress(io.StringIO()) as progress:
            done = roll_out(parts, maintenance.each(work), maintenance.verify, progress)
        return done, not unwell


def refuse_losses(lost: Mapping[str, Sequence[str]], *, allowed: bool) -> None:
    """Name what would be lost, by node; end with exit code 1 unless that is *allowed*."""
    for name, things in lost.items():
        for thing in things:
            tell(f"{name}: {'is lost' if allowed else 'would be lost'}: {thing}")
    if lost and not allowed:
        tell("nothing was touched; move these elsewhere, or say --lose-pods to lose them")
        raise SystemExit(PROBLEM)


def kubeconfig_of(plan: Plan, *, needed: bool) -> Path | None:
    """Where the site's cluster is. Raises `StackError` when the stack does not say and it is *needed*, to drain nodes."""
    if plan.cluster is None:
        return None
    stated = None
    with nullcontext() if needed else suppress(StackError, OSError):
        stated = access_of(repository(), plan.site).kubeconfig
    if stated is None:
        if needed:
            raise StackError(
                f"stack {plan.site} has no kubernetes:kubeconfig, so nothing can be drained (docs/real-site.md); "
                "with --no-drain pods are cut off"
            )
        return None
    obtain(["kubectl"], tell)
    return stated


def exit_code(done: Rollout, *others: bool) -> int:
    """0 when no host stopped the run and all *others* are well, else 1."""
    return FINE if not done.stops and all(others) else PROBLEM


def show_unreached(unreached: Mapping[str, str]) -> None:
    """Say who could not be asked, and why."""
    for name, why in unreached.items():
        tell(f"{name}: cannot be asked: {why}")


def show_stops(done: Rollout) -> None:
    """Say what stopped the run, and how much it has left alone."""
    for stop in done.stops:
        tell(f"{stop.host}: {stop.what}")
    if done.untouched:
        tell(f"stopped: {len(done.untouched)} hosts of later waves are not touched")


def rollout_as_json(done: Rollout) -> dict[str, object]:
    """What became of the waves, for ``--json``."""
    return {
        "waves": [{"hosts": wave.hosts, "proved": wave.proved} for wave in done.waves],
        "stopped": [{"host": stop.host, "what": stop.what} for stop in done.stops],
        "untouched": done.untouched,
    }


def failed(done: Rollout) -> int:
    """How many hosts stopped the run."""
    return len({stop.host for stop in done.stops})
