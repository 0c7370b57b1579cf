"""`pinion reboot`: reboot the hosts that ask for it, drained and in waves."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from pinion.bringup import cluster_node, reboot
from pinion.bringup.access import access_of
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.bringup.reboot import Reboots, Running, survey
from pinion.bringup.rollout import Rollout, roll_out
from pinion.bringup.stack_environment import StackError
from pinion.bringup.verification import host_verifier
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.cli.asking import confirm
from pinion.cli.hosts import chosen
from pinion.cli.rollout_progress import ScreenProgress
from pinion.drivers.hosts.inventory import login
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.model import HostPlan
from pinion.plan.rollout import waves
from pinion.site.find import repository

#: The option of commands that drain nodes.
LOSE_PODS = click.option(
    "--lose-pods",
    is_flag=True,
    help="Go on where pods without a controller, or what pods keep on their node alone (emptyDir), are lost.",
)
#: Seconds that claims have to come true after a boot: timers run first after a minute.
SETTLE = 90.0


@dataclass(frozen=True, slots=True)
class LiveMeans:
    """Implements `pinion.bringup.reboot.Means`. *kubeconfig* None: the site has no cluster, or the run does without it.

    *lose*: pods, and what they keep on a node alone, may be lost.
    """

    kubeconfig: Path | None
    lose: bool = False

    def look(self, host: HostPlan) -> Running:
        return reboot.look(host, login())

    def hold(self, node: str) -> str | None:
        return None if self.kubeconfig is None else cluster_node.hold(self.kubeconfig, node, "reboot", lose=self.lose)

    def losses(self, node: str) -> tuple[str, ...]:
        return () if self.kubeconfig is None else cluster_node.losses(self.kubeconfig, node)

    def restart(self, host: HostPlan) -> None:
        reboot.restart(host, login())

    def held(self) -> frozenset[str]:
        return frozenset() if self.kubeconfig is None else cluster_node.held(self.kubeconfig)

    def let_go(self, node: str) -> None:
        if self.kubeconfig is not None:
            cluster_node.let_go(self.kubeconfig, node)


@click.command(
    name="reboot",
    epilog="""\b
Examples:
  pinion reboot dc-rack-12 --check             who asks for a reboot, and why
  pinion reboot dc-rack-12                     drain, reboot and prove them, in waves
  pinion reboot dc-rack-12 --limit pi-03 --all

\b
Hosts ask for a reboot when boot files, kernel arguments, drivers or packages count from the next boot on; `pinion converge` says so.
How to log in: as for `pinion converge`.
""",
)
@click.argument("site")
@click.option("--check", is_flag=True, help="Reboot nothing; say who asks for it, and exit with 1 when anyone does.")
@click.option(
    "--limit", multiple=True, metavar="PATTERN", help="Only hosts whose name or group matches; may be repeated."
)
@click.option("--all", "everyone", is_flag=True, help="Also hosts that do not ask for it.")
@click.option("--no-drain", is_flag=True, help="Do not move pods elsewhere first: they are cut off.")
@LOSE_PODS
@click.option(
    "--patience",
    type=click.IntRange(10, 3600),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long a host may take to come back.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; progress goes to standard error.")
def command(
    site: str,
    check: bool,
    limit: tuple[str, ...],
    everyone: bool,
    no_drain: bool,
    lose_pods: bool,
    patience: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Reboot the hosts of SITE that ask for it: pods moved elsewhere, in waves, each proved before the next. Safe to kill and to run again.

    Exits with 1 when a host did not come back as planned; then it stays cordoned, and later waves are not touched.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    hosts = {host.name: host for host in plan.hosts if host.name in set(chosen(plan, limit))}

    def tell(text: str) -> None:
        click.echo(text, err=True)

    try:
        means = LiveMeans(None if check else kubeconfig_of(plan, tell, needed=not no_drain), lose_pods)
        found = survey(list(hosts.values()), means)
        running = {name: state for name, state in found.items() if isinstance(state, Running)}
        unreached = {name: said for name, said in found.items() if isinstance(said, str)}
        due = {name: state for name, state in running.items() if everyone or state.reasons}
        _show(due, unreached)
        if check:
            _end(plan, due, unreached, Rollout(), as_json=as_json, code=PROBLEM if due or unreached else FINE)
        work = Reboots(
            hosts, due, means, host_verifier(plan, login(), settle=SETTLE, tell=tell), tell, patience, not no_drain
        )
        refuse_losses(work.losses(list(due)), allowed=lose_pods)
        confirm(f"reboot {len(due)} hosts", yes=yes or not due)
        well, unwell = work.take_up([name for name in running if name not in due])
        for name in well:
            tell(f"{name}: uncordoned; an earlier run had rebooted it")
        for name in unwell:
            tell(
                f"{name}: stays cordoned, as an earlier run left it: its checks do not hold; pinion verify {plan.site}"
            )
        parts = waves([hosts[name] for name in due], plan.rollout)
        with ScreenProgress(io.StringIO()) as progress:
            done = roll_out(parts, work.wave, work.verify, progress)
    except (ClusterNodeError, ProgramMissingError, StackError, OSError) as error:
        click.echo(f"Error: {error}\nWhen that is mended, run the same command again: it goes on.", err=True)
        raise SystemExit(COULD_NOT_RUN) from error
    _end(plan, due, unreached, done, as_json=as_json, code=PROBLEM if done.stops or unreached or unwell else FINE)


def refuse_losses(lost: Mapping[str, Sequence[str]], *, allowed: bool) -> None:
    """Name what would be lost, by node; end with exit code 1 unless that is *allowed*."""
    for name, things in lost.items():
        for thing in things:
            click.echo(f"{name}: {'is lost' if allowed else 'would be lost'}: {thing}", err=True)
    if lost and not allowed:
        click.echo("nothing was touched; move these elsewhere, or say --lose-pods to lose them", err=True)
        raise SystemExit(PROBLEM)


def kubeconfig_of(plan: Plan, tell: Callable[[str], None], *, needed: bool) -> Path | None:
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


def _show(due: Mapping[str, Running], unreached: Mapping[str, str]) -> None:
    for name, state in due.items():
        click.echo(f"{name}: to be rebooted{' for: ' if state.reasons else ''}{', '.join(state.reasons)}", err=True)
    for name, said in unreached.items():
        click.echo(f"{name}: cannot be asked: {said}", err=True)
    if not due and not unreached:
        click.echo("nothing waits for a reboot", err=True)


def _end(
    plan: Plan,
    due: Mapping[str, Running],
    unreached: Mapping[str, str],
    done: Rollout,
    *,
    as_json: bool,
    code: int,
) -> None:
    for stop in done.stops:
        click.echo(f"{stop.host}: {stop.what}", err=True)
    if done.untouched:
        click.echo(f"stopped: {len(done.untouched)} hosts of later waves are not touched", err=True)
    rebooted = [name for name, result in done.results.items() if result.changes]
    if as_json:
        answer = {
            "site": plan.site,
            "due": {name: state.reasons for name, state in due.items()},
            "unreached": unreached,
            "rebooted": rebooted,
            "waves": [{"hosts": wave.hosts, "proved": wave.proved} for wave in done.waves],
            "stopped": [{"host": stop.host, "what": stop.what} for stop in done.stops],
            "untouched": done.untouched,
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{len(due)} hosts to reboot, {len(rebooted)} rebooted, {len({s.host for s in done.stops})} failed")
    raise SystemExit(code)
