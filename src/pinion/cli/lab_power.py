"""`pinion lab up`, `down`, `status` and `logs`: the lab as a whole."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from pinion.cli.arguments import FINE, PROBLEM, load_or_exit
from pinion.cli.lab_arguments import INSTANCE, JSON, SITE, state, told
from pinion.lab.assembly import PARTS, parts
from pinion.lab.down import down as take_down
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.progress import Progress
from pinion.lab.state import InstanceState
from pinion.lab.status import PieceStatus, chosen_parts, status
from pinion.lab.up import up as bring_up
from pinion.plan import Plan
from pinion.plan import plan as compile_plan


@click.command(
    epilog="""\b
Examples:
  pinion lab up
  pinion lab up --site ./my-site.yml --instance trial
  pinion lab up --parts switch           machines and switch only: no NetBox, no Kubernetes
"""
)
@SITE
@INSTANCE
@click.option(
    "--parts", "part_names", metavar="NAMES", help=f"Parts to run, by commas: {', '.join(PARTS)}, none.  [default: all]"
)
@click.option(
    "--bare", is_flag=True, help="New disks without the packages that concerns want: `converge` installs them."
)
@JSON
def up(site: str, instance: str | None, part_names: str | None, bare: bool, as_json: bool) -> None:
    """Bring the lab up, or bring it on from wherever it is; a second time changes nothing."""
    path, loaded = load_or_exit(site, as_json=as_json)
    with told():
        _die_quietly(as_json=as_json)
        names = None if part_names is None else [name for name in part_names.split(",") if name not in {"", "none"}]
        store = InstanceState.of(instance or loaded.site)
        instance_lab = Lab(compile_plan(loaded), store, parts(names), Progress(), bare=bare)
        report = bring_up(instance_lab, site=str(path.resolve()))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        machines = ", ".join(f"{name} {done}" for name, done in sorted(report.machines.items()))
        click.echo(f"lab {report.instance} is up after {report.seconds:.1f} s, {report.changes} changes: {machines}")


@click.command(
    epilog="""\b
Examples:
  pinion lab down
  pinion lab down --purge                delete its disks, databases and keys too
"""
)
@SITE
@INSTANCE
@click.option("--purge", is_flag=True, help="Delete disks, databases, keys and secrets too.")
@JSON
def down(site: str, instance: str | None, purge: bool, as_json: bool) -> None:
    """Power the lab off: no process, mount, namespace or link is left. Disks stay, as in a rack without power."""
    with told():
        report = take_down(state(site, instance, as_json=as_json), Progress(), purge=purge)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    elif report.machines or report.namespaces or report.uplink or report.purged:
        click.echo(
            f"lab {report.instance} is down after {report.seconds:.1f} s: {len(report.machines)} machines, {report.namespaces} namespaces"
            f"{', its disks deleted' if report.purged else ''}"
        )
    else:
        click.echo(f"lab {report.instance} was down already")


@click.command(
    name="status",
    epilog="""\b
Example:
  pinion lab status --json
Exit code 1 when something is down or does not answer.
""",
)
@SITE
@INSTANCE
@JSON
def show_status(site: str, instance: str | None, as_json: bool) -> None:
    """Show what runs and answers."""
    with told():
        store = state(site, instance, as_json=as_json)
        known = chosen_parts(store)
        pieces = list(status(Lab(_stored_plan(store), store, parts(known)))) if known is not None else []
    if as_json:
        click.echo(json.dumps({"instance": store.name, "pieces": [piece.as_json() for piece in pieces]}, indent=2))
    else:
        click.echo("\n".join(_table(pieces)) if pieces else f"lab {store.name} is down: it was never brought up")
    raise SystemExit(FINE if pieces and all(piece.well for piece in pieces) else PROBLEM)


def _table(pieces: Sequence[PieceStatus]) -> list[str]:
    """One line a piece."""
    width = max(len(piece.name) for piece in pieces)
    lines = []
    for piece in pieces:
        uptime = f"{piece.seconds:.0f} s" if piece.seconds else "-"
        lines.append(f"{piece.name:<{width}}  {piece.kind:<15}  {piece.address:<15}  {uptime:>8}  {piece.state}")
    return lines


@click.command(
    epilog="""\b
Examples:
  pinion lab logs mgmt-1                 the journal of a running machine
  pinion lab logs mgmt-1 --unit netbox
  pinion lab logs pi-01 --console        what it printed while booting
"""
)
@SITE
@INSTANCE
@click.argument("machine")
@click.option("--unit", metavar="UNIT", help="Only this unit's entries.")
@click.option("--lines", default=200, show_default=True, help="How many lines from the end.")
@click.option(
    "--console", is_flag=True, help="The console instead of the journal; the only one for a machine that is down."
)
@JSON
def logs(
    site: str, instance: str | None, machine: str, unit: str | None, lines: int, console: bool, as_json: bool
) -> None:
    """Print the log of MACHINE (or of `uplink`)."""
    with told():
        store = state(site, instance)
        if machine == "uplink":
            text = _tail(store.uplink / "uplink.log", lines)
        elif machine not in store.machine_names():
            raise LabError(f"{machine}: no such machine; there are {', '.join(store.machine_names()) or 'none'}")
        else:
            there = Machine(store, machine)
            if console or there.leader is None:
                text = there.last_words(lines)
            else:
                chosen = ["--unit", unit] if unit else []
                text = there.run(["journalctl", "--no-pager", "--lines", str(lines), *chosen]).stdout
    click.echo(json.dumps({"machine": machine, "lines": text.splitlines()}, indent=2) if as_json else text)


def _die_quietly(*, as_json: bool) -> None:
    """End at once on SIGINT or SIGTERM: builders die with us, and the next `up` goes on from here."""
    said = "pinion lab up: stopped; run it again to go on"

    def stop(number: int, _frame: object) -> None:
        with suppress(OSError):
            os.write(sys.stderr.fileno(), f"\n{said}\n".encode())
            if as_json:
                os.write(sys.stdout.fileno(), json.dumps({"error": said, "exit_code": 128 + number}).encode())
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _stored_plan(store: InstanceState) -> Plan:
    """The plan that the instance was last brought up with."""
    try:
        return Plan.model_validate_json(store.plan.read_bytes())
    except (OSError, ValueError):
        raise LabError(f"instance {store.name}: never brought up by this version; bring it up: pinion lab up") from None
