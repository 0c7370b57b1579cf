"""`pinion upgrade`: newer packages for hosts, drained, in waves, proved, and back again."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from pinion.bringup import cluster_node
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.programs import ProgramMissingError
from pinion.bringup.reboot import Reboots, Running
from pinion.bringup.reboot import survey as running_of
from pinion.bringup.rollout import Rollout, roll_out
from pinion.bringup.stack_environment import StackError
from pinion.bringup.upgrade import RemotePackages, Request, Upgraded, Upgrades, survey
from pinion.bringup.verification import host_verifier
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.cli.asking import confirm
from pinion.cli.hosts import chosen
from pinion.cli.reboot import LOSE_PODS, SETTLE, LiveMeans, kubeconfig_of, refuse_losses
from pinion.cli.rollout_progress import ScreenProgress
from pinion.drivers.hosts.inventory import login
from pinion.plan import plan as compile_plan
from pinion.plan.rollout import waves


@click.command(
    name="upgrade",
    epilog="""\b
Examples:
  pinion upgrade dc-rack-12 --check                    what would become newer, security fixes first
  pinion upgrade dc-rack-12                            drain, upgrade, reboot where needed and prove, in waves
  pinion upgrade dc-rack-12 --limit 'pi-*' --yes
  pinion upgrade dc-rack-12 --back 20261121-093000-5f3a

\b
Packages that a concern holds to a version (the GPU driver with its fabric manager) change with the site file and `pinion converge`.
How to log in: as for `pinion converge`.
""",
)
@click.argument("site")
@click.option("--check", is_flag=True, help="Upgrade nothing; say what would be, and exit with 1 when anything would.")
@click.option(
    "--limit", multiple=True, metavar="PATTERN", help="Only hosts whose name or group matches; may be repeated."
)
@click.option("--back", metavar="RUN", help="Take the hosts that RUN upgraded back to the packages that they had.")
@click.option("--one-way", is_flag=True, help="Also packages for which there will be no way back.")
@click.option("--no-reboot", is_flag=True, help="Reboot nothing; `pinion reboot` does it later.")
@click.option("--no-drain", is_flag=True, help="Do not move pods elsewhere first: a reboot cuts them off.")
@LOSE_PODS
@click.option(
    "--patience",
    type=click.IntRange(10, 3600),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long a host may take to come back from a reboot.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; progress goes to standard error.")
def command(
    site: str,
    check: bool,
    limit: tuple[str, ...],
    back: str | None,
    one_way: bool,
    no_reboot: bool,
    no_drain: bool,
    lose_pods: bool,
    patience: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Bring the packages of SITE's hosts to the newest of their archives: pods moved elsewhere, in waves, each proved before the next.

    Each host keeps what it had until its next upgrade, for --back. Safe to kill and to run again. Exits with 1 when a host failed; then
    it stays cordoned, and later waves are not touched.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    hosts = {host.name: host for host in plan.hosts if host.name in set(chosen(plan, limit))}
    run = back or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    packages = RemotePackages(login())

    def tell(text: str) -> None:
        click.echo(text, err=True)

    try:
        means = LiveMeans(kubeconfig_of(plan, tell, needed=not (no_drain or check)), lose_pods)
        kubernetes = None if means.kubeconfig is None else cluster_node.server_version(means.kubeconfig)
        request = Request(run, kubernetes, one_way, back=back is not None)
        tell(f"asking {len(hosts)} hosts what their archives have …")
        found = survey(list(hosts.values()), packages, request)
        pending = {name: said for name, said in found.items() if isinstance(said, Upgraded)}
        unreached = {name: said for name, said in found.items() if isinstance(said, str)}
        running = {
            name: state
            for name, state in running_of([hosts[name] for name in pending], means).items()
            if isinstance(state, Running)
        }
        due = {
            name: running[name]
            for name, said in pending.items()
            if name in running and (said.packages or (not back and (running[name].reasons or said.stale)))
        }
        if back and not due:
            _nothing_back(back, pending)
        _show({name: pending[name] for name in due}, due, unreached)
        for name, said in pending.items():
            _show_left(name, said)
        if check:
            code = PROBLEM if due or unreached else FINE
            _end(plan.site, run, pending, unreached, {}, Rollout(), as_json=as_json, code=code)
        reboots = Reboots(
            hosts, due, means, host_verifier(plan, login(), settle=SETTLE, tell=tell), tell, patience, not no_drain
        )
        refuse_losses(reboots.losses(list(due)), allowed=lose_pods)
        confirm(f"change {len(due)} hosts", yes=yes or not due)
        well, unwell = reboots.take_up([name for name in running if name not in due])
        for name in well:
            tell(f"{name}: uncordoned; an earlier run had upgraded it")
        for name in unwell:
            tell(f"{name}: stays cordoned, as an earlier run left it: its checks do not hold; pinion verify {site}")
        work = Upgrades(reboots, packages, request, reboot=not no_reboot)
        with ScreenProgress(io.StringIO()) as progress:
            done = roll_out(waves([hosts[name] for name in due], plan.rollout), work.wave, reboots.verify, progress)
    except (ClusterNodeError, ProgramMissingError, StackError, OSError) as error:
        click.echo(f"Error: {error}\nWhen that is mended, run the same command again: it goes on.", err=True)
        raise SystemExit(COULD_NOT_RUN) from error
    code = PROBLEM if done.stops or unreached or unwell else FINE
    _end(plan.site, run, pending, unreached, work.done, done, as_json=as_json, code=code)


def _show(pending: Mapping[str, Upgraded], due: Mapping[str, Running], unreached: Mapping[str, str]) -> None:
    """What is going to happen, security fixes first."""
    for name, said in pending.items():
        fixes = sum(package.security for package in said.packages)
        click.echo(f"{name}: {len(said.packages)} packages, {fixes} of them security fixes", err=True)
        for package in said.packages:
            click.echo(f"  {package}", err=True)
        reasons = [*due[name].reasons]
        if said.stale:
            reasons.append(f"programs with replaced files: {', '.join(said.stale)}")
        if reasons:
            click.echo(f"  a reboot, for: {'; '.join(reasons)}", err=True)
    for name, why in unreached.items():
        click.echo(f"{name}: cannot be asked: {why}", err=True)
    if not pending and not unreached:
        click.echo("nothing is newer than what the hosts have", err=True)


def _nothing_back(run: str, pending: Mapping[str, Upgraded]) -> None:
    """Say that no host has anything to go back to, and which runs there are; that is an error when *run* is not one of them."""
    kept = sorted({each for said in pending.values() for each in said.kept})
    if run not in kept:
        click.echo(f"Error: no host has a run {run}; there are: {', '.join(kept) or 'none'}", err=True)
        raise SystemExit(COULD_NOT_RUN)


def _show_left(name: str, said: Upgraded) -> None:
    """What an upgrade leaves alone, and why."""
    if said.kept_back:
        click.echo(f"{name}: stay, since other packages would have to go: {', '.join(said.kept_back)}", err=True)
    for package, why in said.refused.items():
        click.echo(f"{name}: {package} stays: {why}", err=True)


def _end(
    site: str,
    run: str,
    pending: Mapping[str, Upgraded],
    unreached: Mapping[str, str],
    done: Mapping[str, Upgraded],
    rollout: Rollout,
    *,
    as_json: bool,
    code: int,
) -> None:
    for stop in rollout.stops:
        click.echo(f"{stop.host}: {stop.what}", err=True)
    if rollout.untouched:
        click.echo(f"stopped: {len(rollout.untouched)} hosts of later waves are not touched", err=True)
    for name, result in rollout.results.items():
        if result.reboot and not result.errors:
            click.echo(f"{name}: needs a reboot, for: {'; '.join(result.reboot)}; pinion reboot {site}", err=True)
    for name, said in done.items():
        if said.one_way:
            click.echo(f"{name}: no way back for {', '.join(said.one_way)}", err=True)
        if said.stays:
            click.echo(f"{name}: stay, since others need them now: {', '.join(said.stays)}", err=True)
    changed = {name: said for name, said in done.items() if said.packages}
    if as_json:
        answer = {
            "site": site,
            "run": run,
            "pending": {name: said.model_dump(mode="json") for name, said in pending.items()},
            "unreached": unreached,
            "changed": {name: [package.model_dump() for package in said.packages] for name, said in changed.items()},
            "needs_reboot": {name: result.reboot for name, result in rollout.results.items() if result.reboot},
            "waves": [{"hosts": wave.hosts, "proved": wave.proved} for wave in rollout.waves],
            "stopped": [{"host": stop.host, "what": stop.what} for stop in rollout.stops],
            "untouched": rollout.untouched,
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        failed = len({stop.host for stop in rollout.stops})
        click.echo(f"{len(pending)} hosts asked, {len(changed)} changed, {failed} failed")
        if changed:
            click.echo(f"the way back: pinion upgrade {site} --back {run}")
    raise SystemExit(code)
