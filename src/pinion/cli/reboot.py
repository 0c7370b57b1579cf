"""`pinion reboot`: reboot the hosts that ask for it, drained and in waves."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from pinion.bringup.host_shell import ask_each
from pinion.bringup.maintenance import Worked
from pinion.bringup.reboot import Running
from pinion.bringup.rollout import Rollout
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
from pinion.plan.model import HostPlan


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
@maintenance_options(
    check="Reboot nothing; say who asks for it, and exit with 1 when anyone does.",
    no_drain="Do not move pods elsewhere first: they are cut off.",
)
@click.option("--all", "everyone", is_flag=True, help="Also hosts that do not ask for it.")
def command(options: Options, *, everyone: bool) -> None:
    """Reboot the hosts of SITE that ask for it: pods moved elsewhere, in waves, each proved before the next. Safe to kill and to run again.

    Exits with 1 when a host did not come back as planned; then it stays cordoned, and later waves are not touched.
    """
    session = Session.begin(options, "reboot", check_asks_cluster=False)
    with may_be_run_again():
        found = ask_each(list(session.hosts.values()), session.means.look)
        running = {name: state for name, state in found.items() if isinstance(state, Running)}
        unreached = {name: said for name, said in found.items() if isinstance(said, str)}
        due = {name: state for name, state in running.items() if everyone or state.reasons}
        _show(due, unreached)
        if options.check:
            _end(session, due, unreached, Rollout(), exit_code(Rollout(), not due, not unreached))
        maintenance = session.maintenance()

        def work(host: HostPlan, worked: Worked) -> None:
            maintenance.boot(host, due[host.name], worked)

        others = [name for name in running if name not in due]
        done, well = session.roll_out(maintenance, list(due), others, work, "reboot")
    _end(session, due, unreached, done, exit_code(done, well, not unreached))


def _show(due: Mapping[str, Running], unreached: Mapping[str, str]) -> None:
    for name, state in due.items():
        tell(f"{name}: to be rebooted{' for: ' if state.reasons else ''}{', '.join(state.reasons)}")
    show_unreached(unreached)
    if not due and not unreached:
        tell("nothing waits for a reboot")


def _end(session: Session, due: Mapping[str, Running], unreached: Mapping[str, str], done: Rollout, code: int) -> None:
    show_stops(done)
    rebooted = [name for name, result in done.results.items() if result.changes]
    if session.options.as_json:
        answer = {
            "site": session.plan.site,
            "due": {name: state.reasons for name, state in due.items()},
            "unreached": unreached,
            "rebooted": rebooted,
            **rollout_as_json(done),
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{len(due)} hosts to reboot, {len(rebooted)} rebooted, {failed(done)} failed")
    raise SystemExit(code)
