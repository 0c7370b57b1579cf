"""`pinion converge`: bring hosts to their planned state, by Ansible or by pyinfra, in waves."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

import click

from pinion.bringup.access import access_of
from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.bringup.rollout import Rollout, roll_out
from pinion.bringup.stack_environment import StackError
from pinion.bringup.verification import host_verifier
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.cli.completing import sites
from pinion.cli.rollout_progress import ScreenProgress
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.inventory import login
from pinion.drivers.hosts.joining import REJOIN_VARIABLE
from pinion.drivers.hosts.joining import VARIABLE as KUBECONFIG_VARIABLE
from pinion.drivers.hosts.programs import Program, ProgramError
from pinion.drivers.hosts.reaching import explain_unreached
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.hosts import concern_names
from pinion.plan.joining import joined_by
from pinion.plan.rollout import waves
from pinion.site.find import repository

#: Hosts that are named one by one; of more, the log has the rest.
_NAMED = 20
#: Logs of so many runs are kept; their names sort by time.
_KEPT_LOGS = 50


@click.command(
    epilog="""\b
Examples:
  pinion converge lab
  pinion converge lab --by pyinfra --check
  pinion converge dc-rack-12 --limit 'pi-0*' --concern firewall
  pinion converge dc-rack-12 --undo 20261121-093000-5f3a
  pinion converge dc-rack-12 --limit pi-02 --rejoin pi-02

\b
A run goes in waves (one host, 10 % of them, the rest; `rollout` in the site file), and the hosts' checks must hold after each.
How to log in: PINION_SSH_KEY and PINION_KNOWN_HOSTS name files; unset, your SSH agent and known_hosts are used.
"""
)
@click.argument("site", shell_complete=sites)
@click.option("--by", type=click.Choice(["ansible", "pyinfra"]), default="ansible", show_default=True)
@click.option("--check", is_flag=True, help="Change nothing; show what differs and exit with 1 when anything does.")
@click.option(
    "--limit", multiple=True, metavar="PATTERN", help="Only hosts whose name or group matches; may be repeated."
)
@click.option("--concern", "concerns", multiple=True, metavar="NAME", help="Only this concern; may be repeated.")
@click.option("--at-once", is_flag=True, help="All hosts in one wave; a host that fails does not keep the others back.")
@click.option(
    "--check-changed",
    is_flag=True,
    help="Only the checks of hosts on which something was changed: for when a verification of all follows.",
)
@click.option("--undo", metavar="RUN", help="Take the hosts that RUN changed back to what they were before it.")
@click.option(
    "--rejoin",
    "rejoining",
    multiple=True,
    metavar="HOST",
    help="Let HOST into the cluster again, which it has joined before: its keys are lost, or it is another machine; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def converge(
    site: str,
    by: str,
    check: bool,
    limit: tuple[str, ...],
    concerns: tuple[str, ...],
    at_once: bool,
    check_changed: bool,
    undo: str | None,
    rejoining: tuple[str, ...],
    as_json: bool,
) -> None:
    """Bring the hosts of SITE to their planned state. A host that cannot be reached has failed.

    Exits with 1 when a host failed or a check does not hold; then later waves are not touched.
    """
    path, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    hosts = chosen(plan, limit)
    _known_concerns(concerns)
    again = _rejoining(plan, hosts, rejoining)
    if undo and (check or concerns):
        raise click.UsageError("--undo takes a whole run back; it goes with neither --check nor --concern")
    run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    with ExitStack() as stack:
        log = repository() / ".pinion" / "converge" / f"{run}.log"
        if check:
            output = sys.stderr  # the diff is what people ask for
        else:
            _make_room(log.parent)
            output = stack.enter_context(log.open("w"))
        program = Program(by, repository(), path.resolve(), output, check, run, undo or "", concerns, again)
        try:
            tolerated = (ProgramMissingError,) if undo else ()  # few hosts need it on the way back, and those say so
            with suppress(*tolerated):
                _know_the_cluster(plan, hosts, concerns)
            together = at_once or check or bool(undo)
            done = _roll(plan, program, hosts, at_once=together, changed_only=check_changed)
        except (ProgramError, ProgramMissingError) as error:
            click.echo(f"Error: {error}" + ("" if check else f"; what it said is in {log}"), err=True)
            raise SystemExit(COULD_NOT_RUN) from error
    if as_json:
        click.echo(json.dumps(_as_json(plan, program, done), indent=2))
        _print_stops(done, err=True)
        _print_way_back(plan, program, done, err=True)
    else:
        _print(plan, program, done, None if check else log)
    raise SystemExit(exit_code(done, check=check))


def _make_room(folder: Path) -> None:
    """A folder for logs, with those of the last runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[:-_KEPT_LOGS]:
        old.unlink(missing_ok=True)


def chosen(plan: Plan, patterns: Sequence[str]) -> tuple[str, ...]:
    """The names of the hosts that match any of *patterns* by name or group; all without a pattern.

    Raises `click.BadParameter` for a pattern that matches none.
    """
    names = {host.name: (host.name, *host.groups) for host in plan.hosts}
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for given in names.values() for name in given):
            groups = sorted({group for host in plan.hosts for group in host.groups})
            known = f"its groups are {', '.join(groups)}; pinion plan {plan.site} prints its hosts"
            raise click.BadParameter(
                f"no host or group of {plan.site} matches '{pattern}'; {known}", param_hint="--limit"
            )
    if not names:
        raise click.BadParameter(f"{plan.site} has no hosts", param_hint="SITE")
    return tuple(
        host
        for host, given in names.items()
        if not patterns or any(fnmatch(name, pattern) for name in given for pattern in patterns)
    )


def _known_concerns(concerns: Sequence[str]) -> None:
    for concern in concerns:
        if concern not in concern_names():
            known = ", ".join(concern_names())
            raise click.BadParameter(f"there is no concern '{concern}'; there are {known}", param_hint="--concern")


def _rejoining(plan: Plan, hosts: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """The environment that lets *names* into the cluster again. Raises `click.BadParameter` for one that this run has not join it."""
    joining = [host.name for host in plan.hosts if host.name in set(hosts) and joined_by(host) is not None]
    for name in names:
        if name not in joining:
            known = f"those are {', '.join(joining)}" if joining else "none does"
            raise click.BadParameter(
                f"'{name}' is no host of this run that joins the cluster; {known}", param_hint="--rejoin"
            )
    return {REJOIN_VARIABLE: ",".join(names)} if names else {}


def _know_the_cluster(plan: Plan, hosts: Sequence[str], only: Sequence[str]) -> None:
    """Where hosts may join the cluster, have kubectl, and the kubeconfig of the stack unless the environment names one.

    A host whose token then cannot be made says so itself. Raises `ProgramMissingError`.
    """
    joining = {joined_by(host) for host in plan.hosts if host.name in set(hosts)} - {None}
    if not joining or (only and joining.isdisjoint(only)):
        return
    if shutil.which("kubectl") is None:
        obtain(["kubectl"], lambda line: click.echo(line, err=True))
    if KUBECONFIG_VARIABLE not in os.environ:
        with suppress(StackError, OSError):
            stated = access_of(repository(), plan.site).kubeconfig
            os.environ.update({KUBECONFIG_VARIABLE: str(stated)} if stated is not None else {})


def _roll(plan: Plan, program: Program, hosts: Sequence[str], *, at_once: bool, changed_only: bool) -> Rollout:
    """Run it: in waves with checks, or all at once without (a check changes nothing, and an undo leaves the plan)."""
    parts = [hosts] if at_once else waves([host for host in plan.hosts if host.name in set(hosts)], plan.rollout)
    with ScreenProgress(None if program.check else program.output) as progress:

        def converge_hosts(names: Sequence[str]) -> Mapping[str, HostResult]:
            results = program.converge(names, progress.heard)
            explain_unreached(results, plan.hosts, login())
            return results

        unverified = program.check or program.undo
        verify = None if unverified else host_verifier(plan, login(), program.concerns, tell=progress.waits)
        return roll_out([tuple(part) for part in parts], converge_hosts, verify, progress, changed_only=changed_only)


def exit_code(done: Rollout, *, check: bool) -> int:
    """0 when every host is as planned, 1 when one is not (or, checking, differs)."""
    if done.stops:
        return PROBLEM
    return PROBLEM if check and any(result.changes for result in done.results.values()) else FINE


# --- what is said -----------------------------------------------------------------------------------------------------


def _as_json(plan: Plan, program: Program, done: Rollout) -> dict[str, object]:
    results = done.results
    return {
        "site": plan.site,
        "by": program.by,
        "check": program.check,
        "run": program.run,
        "changed": sum(len(result.changes) for result in results.values()),
        "failed": sorted({name for name, result in results.items() if result.errors}, key=list(results).index),
        "stopped": [{"host": stop.host, "what": stop.what} for stop in done.stops],
        "waves": [
            {"hosts": wave.hosts, "changed": wave.changed, "proved": wave.proved, "after_boot": wave.after_boot}
            for wave in done.waves
        ],
        "untouched": done.untouched,
        "hosts": {name: result.as_json() for name, result in results.items()},
    }


def _print(plan: Plan, program: Program, done: Rollout, log: Path | None) -> None:
    results = done.results
    changed = sum(len(result.changes) for result in results.values())
    _print_stops(done, err=False)
    waiting = [name for name, result in results.items() if result.reboot]
    if waiting:
        click.echo(f"need a reboot: {_names(waiting)}")
    for note, names in _notes(results).items():
        click.echo(f"{_names(names)}: {note}")
    verb = "to change" if program.check else "changed"
    failed = len({stop.host for stop in done.stops})
    click.echo(f"{len(results)} hosts, {changed} things {verb}, {failed} failed")
    if log is not None:
        click.echo(f"log: {log}")
    _print_way_back(plan, program, done, err=False)


def _print_stops(done: Rollout, *, err: bool) -> None:
    for stop in done.stops[:_NAMED]:
        click.echo(f"{stop.host}: {stop.what}", err=err)
    if len(done.stops) > _NAMED:
        click.echo(f"and {len(done.stops) - _NAMED} more", err=err)


def _print_way_back(plan: Plan, program: Program, done: Rollout, *, err: bool) -> None:
    if program.check or not done.stops:
        return
    if done.untouched:
        click.echo(f"stopped: {len(done.untouched)} hosts of later waves are not touched", err=err)
    if not program.undo and any(wave.changed for wave in done.waves):
        click.echo(f"the way back: pinion converge {plan.site} --undo {program.run}", err=err)


def _notes(results: Mapping[str, HostResult]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        for note in result.notes:
            found.setdefault(note, []).append(name)
    return found


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
