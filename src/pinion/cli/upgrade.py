"""`pinion upgrade`: newer packages for hosts, drained, in waves, proved, and back again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

import click

from pinion.bringup import cluster_node
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.host_shell import ask_each
from pinion.bringup.reboot import Running
from pinion.bringup.rollout import Rollout
from pinion.bringup.upgrade import KUBERNETES_PACKAGES, RemotePackages, Request, Upgraded, Upgrades
from pinion.cli.arguments import COULD_NOT_RUN
from pinion.cli.maintenance import (
    Options,
    Session,
    exit_code,
    failed,
    maintenance_options,
    may_be_run_again,
    rollout_as_json,
    show_stops,
    show_unreached,
    tell,
)
from pinion.drivers.hosts.inventory import login


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
@maintenance_options(
    check="Upgrade nothing; say what would be, and exit with 1 when anything would.",
    no_drain="Do not move pods elsewhere first: a reboot cuts them off.",
)
@click.option("--back", metavar="RUN", help="Take the hosts that RUN upgraded back to the packages that they had.")
@click.option("--one-way", is_flag=True, help="Also packages for which there will be no way back.")
@click.option("--no-reboot", is_flag=True, help="Reboot nothing; `pinion reboot` does it later.")
def command(options: Options, *, back: str | None, one_way: bool, no_reboot: bool) -> None:
    """Bring the packages of SITE's hosts to the newest of their archives: pods moved elsewhere, in waves, each proved before the next.

    Each host keeps what it had until its next upgrade, for --back. Safe to kill and to run again. Exits with 1 when a host failed; then
    it stays cordoned, and later waves are not touched.
    """
    session = Session.begin(options, "upgrade", check_asks_cluster=True)
    run = back or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    packages = RemotePackages(login())
    hosts = session.hosts
    with may_be_run_again():
        request = Request(run, {} if back else _newest(session), one_way, back=back is not None)
        tell(f"asking {len(hosts)} hosts what their archives have …")
        found = ask_each(list(hosts.values()), lambda host: packages.pending(host, request))
        pending = {name: said for name, said in found.items() if isinstance(said, Upgraded)}
        unreached = {name: said for name, said in found.items() if isinstance(said, str)}
        asked = ask_each([hosts[name] for name in pending], session.means.look)
        running = {name: state for name, state in asked.items() if isinstance(state, Running)}
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
        if options.check:
            _end(session, run, pending, unreached, {}, Rollout(), exit_code(Rollout(), not due, not unreached))
        maintenance = session.maintenance()
        work = Upgrades(maintenance, packages, request, reboot=not no_reboot)
        others = [name for name in running if name not in due]
        done, well = session.roll_out(maintenance, list(due), others, work.one, "change")
    _end(session, run, pending, unreached, work.done, done, exit_code(done, well, not unreached))


def _newest(session: Session) -> Mapping[str, str | None]:
    """The minor version that the packages of Kubernetes may have: the API server's, None where a run that does without it does not know it.

    Raises `ClusterNodeError` when a run that drains gets no answer.
    """
    if session.plan.cluster is None:
        return {}
    known, why = None, f"stack {session.plan.site} names no cluster that can be asked"
    if session.means.kubeconfig is not None:
        try:
            known = cluster_node.server_version(session.means.kubeconfig)
        except ClusterNodeError as error:
            if not (session.options.no_drain or session.options.check):
                raise
            why = str(error)
    if known is None:
        tell(
            f"the API server's version is not known: {', '.join(KUBERNETES_PACKAGES)} keep their minor version ({why})"
        )
    return dict.fromkeys(KUBERNETES_PACKAGES, known)


def _show(pending: Mapping[str, Upgraded], due: Mapping[str, Running], unreached: Mapping[str, str]) -> None:
    """What is going to happen, security fixes first."""
    for name, said in pending.items():
        fixes = sum(package.security for package in said.packages)
        tell(f"{name}: {len(said.packages)} packages, {fixes} of them security fixes")
        for package in said.packages:
            tell(f"  {package}")
        reasons = [*due[name].reasons]
        if said.stale:
            reasons.append(f"programs with replaced files: {', '.join(said.stale)}")
        if reasons:
            tell(f"  a reboot, for: {'; '.join(reasons)}")
    show_unreached(unreached)
    if not pending and not unreached:
        tell("nothing is newer than what the hosts have")


def _nothing_back(run: str, pending: Mapping[str, Upgraded]) -> None:
    """Say that no host has anything to go back to, and which runs there are; that is an error when *run* is not one of them."""
    kept = sorted({each for said in pending.values() for each in said.kept})
    if run not in kept:
        tell(f"Error: no host has a run {run}; there are: {', '.join(kept) or 'none'}")
        raise SystemExit(COULD_NOT_RUN)


def _show_left(name: str, said: Upgraded) -> None:
    """What an upgrade leaves alone, and why."""
    if said.kept_back:
        tell(f"{name}: stay, since other packages would have to go: {', '.join(said.kept_back)}")
    for package, why in said.refused.items():
        tell(f"{name}: {package} stays: {why}")


def _end(
    session: Session,
    run: str,
    pending: Mapping[str, Upgraded],
    unreached: Mapping[str, str],
    done: Mapping[str, Upgraded],
    rollout: Rollout,
    code: int,
) -> None:
    site = session.plan.site
    show_stops(rollout)
    for name, result in rollout.results.items():
        if result.reboot and not result.errors:
            tell(f"{name}: needs a reboot, for: {'; '.join(result.reboot)}; pinion reboot {site}")
    for name, said in done.items():
        if said.one_way:
            tell(f"{name}: no way back for {', '.join(said.one_way)}")
        if said.stays:
            tell(f"{name}: stay, since others need them now: {', '.join(said.stays)}")
    changed = {name: said for name, said in done.items() if said.packages}
    if session.options.as_json:
        answer = {
            "site": site,
            "run": run,
            "pending": {name: said.model_dump(mode="json") for name, said in pending.items()},
            "unreached": unreached,
            "changed": {name: [package.model_dump() for package in said.packages] for name, said in changed.items()},
            "needs_reboot": {name: result.reboot for name, result in rollout.results.items() if result.reboot},
            **rollout_as_json(rollout),
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{len(pending)} hosts asked, {len(changed)} changed, {failed(rollout)} failed")
        if changed:
            click.echo(f"the way back: pinion upgrade {site} --back {run}")
    raise SystemExit(code)
