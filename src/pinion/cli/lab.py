"""`pinion lab`: the rack in a box."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.lab.assembly import PARTS, parts
from pinion.lab.down import down as take_down
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.operator import replace_process
from pinion.lab.progress import Progress
from pinion.lab.recipes import USER
from pinion.lab.state import InstanceState, read_json
from pinion.lab.status import PieceStatus, chosen_parts, status
from pinion.lab.up import up as bring_up
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.model import DeviceKind

_site = click.option(
    "--site", default="lab", show_default=True, help="Site file: a path, or a name under inventories/."
)
_instance = click.option(
    "--instance",
    envvar="PINION_INSTANCE",
    metavar="NAME",
    help="Which lab, when several run side by side.  [default: the site's name]",
)
_json = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON; progress stays on standard error."
)


@click.group(
    epilog="""\b
Examples:
  pinion lab up                          bring up the lab of inventories/lab
  pinion lab exec -- ping -c1 pi-01      from the management host's network position
  pinion lab down                        leave nothing but the disks
"""
)
def lab() -> None:
    """The rack in a box: bring it up, take it down, look inside. Needs root."""


@lab.command(
    epilog="""\b
Examples:
  pinion lab up
  pinion lab up --site ./my-site.yml --instance trial
  pinion lab up --parts switch           machines and switch only: no NetBox, no Kubernetes
"""
)
@_site
@_instance
@click.option(
    "--parts", "part_names", metavar="NAMES", help=f"Parts to run, by commas: {', '.join(PARTS)}, none.  [default: all]"
)
@click.option(
    "--bare", is_flag=True, help="New disks without the packages that concerns want: `converge` installs them."
)
@_json
def up(site: str, instance: str | None, part_names: str | None, bare: bool, as_json: bool) -> None:
    """Bring the lab up, or bring it on from wherever it is; a second time changes nothing."""
    path, loaded = load_or_exit(site, as_json=as_json)
    with _told():
        _die_quietly()
        names = None if part_names is None else [name for name in part_names.split(",") if name not in {"", "none"}]
        store = InstanceState.of(instance or loaded.site)
        instance_lab = Lab(compile_plan(loaded), store, parts(names), Progress(), bare=bare)
        report = bring_up(instance_lab, site=str(path.resolve()))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        machines = ", ".join(f"{name} {done}" for name, done in sorted(report.machines.items()))
        click.echo(f"lab {report.instance} is up after {report.seconds:.1f} s, {report.changes} changes: {machines}")


@lab.command(
    epilog="""\b
Examples:
  pinion lab down
  pinion lab down --purge                delete its disks, databases and keys too
"""
)
@_site
@_instance
@click.option("--purge", is_flag=True, help="Delete disks, databases, keys and secrets too.")
@_json
def down(site: str, instance: str | None, purge: bool, as_json: bool) -> None:
    """Power the lab off: no process, mount, namespace or link is left. Disks stay, as in a rack without power."""
    with _told():
        report = take_down(_state(site, instance, as_json=as_json), Progress(), purge=purge)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    elif report.machines or report.namespaces or report.uplink or report.purged:
        click.echo(
            f"lab {report.instance} is down after {report.seconds:.1f} s: {len(report.machines)} machines, {report.namespaces} namespaces"
            f"{', its disks deleted' if report.purged else ''}"
        )
    else:
        click.echo(f"lab {report.instance} was down already")


@lab.command(
    name="status",
    epilog="""\b
Example:
  pinion lab status --json
Exit code 1 when something is down or does not answer.
""",
)
@_site
@_instance
@_json
def show_status(site: str, instance: str | None, as_json: bool) -> None:
    """Show what runs and answers."""
    with _told():
        store = _state(site, instance, as_json=as_json)
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


@lab.command(
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  pinion lab exec -- pulumi preview
  pinion lab exec --machine pi-01 -- ping -c1 pi-02
""",
)
@_site
@_instance
@click.option("--machine", metavar="NAME", help="Whose network position to take.  [default: the management host]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(site: str, instance: str | None, machine: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, with this machine's files, where the management host is in the network. Its exit code is passed on."""
    with _told():
        store = _state(site, instance)
        replace_process(store, machine or _management_host(store), command)


@lab.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  pinion lab ssh pi-01
  pinion lab ssh nv-1 -- systemctl status kubelet
Like a serial console, it works before the switch has any configuration.
""",
)
@_site
@_instance
@click.argument("machine")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(site: str, instance: str | None, machine: str, command: tuple[str, ...]) -> None:
    """Log in to MACHINE as user pinion, from its own network namespace."""
    with _told():
        store = _state(site, instance)
        device = _stored_plan(store).device(machine) if machine in store.machine_names() else None
        if device is None:
            raise LabError(f"{machine}: no such machine; there are {', '.join(store.machine_names()) or 'none'}")
        position, options = machine, ["-o", f"HostKeyAlias={machine}"]
        login = f"{USER}@127.0.0.1"
        if device.kind is DeviceKind.SWITCH and device.primary_address:
            # a switch has its own users and password, and answers on its management address
            position, options = _management_host(store), []
            login = f"{_switch_user(store, machine)}@{device.primary_address.partition('/')[0]}"
        keys = store.ssh
        trust = [
            f"UserKnownHostsFile={keys / 'known_hosts'}",
            "StrictHostKeyChecking=yes",
            "GlobalKnownHostsFile=/dev/null",
        ]
        flags = [flag for option in trust for flag in ("-o", option)]
        replace_process(
            store, position, ["ssh", "-F", "none", "-i", str(keys / "id_ed25519"), *flags, *options, login, *command]
        )


@lab.command(
    epilog="""\b
Examples:
  pinion lab logs mgmt-1                 the journal of a running machine
  pinion lab logs mgmt-1 --unit netbox
  pinion lab logs pi-01 --console        what it printed while booting
"""
)
@_site
@_instance
@click.argument("machine")
@click.option("--unit", metavar="UNIT", help="Only this unit's entries.")
@click.option("--lines", default=200, show_default=True, help="How many lines from the end.")
@click.option(
    "--console", is_flag=True, help="The console instead of the journal; the only one for a machine that is down."
)
@_json
def logs(
    site: str, instance: str | None, machine: str, unit: str | None, lines: int, console: bool, as_json: bool
) -> None:
    """Print the log of MACHINE (or of `uplink`)."""
    with _told():
        store = _state(site, instance)
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


# --- shared -----------------------------------------------------------------------------------------------------------


@contextmanager
def _told() -> Iterator[None]:
    """Turn a `LabError` into a message and exit code 2."""
    try:
        yield
    except LabError as error:
        click.echo(f"pinion lab: {error}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None


def _die_quietly() -> None:
    """End at once on SIGINT or SIGTERM: builders die with us, and the next `up` goes on from here."""

    def stop(number: int, _frame: object) -> None:
        os.write(sys.stderr.fileno(), b"\npinion lab up: stopped; run it again to go on\n")
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _state(site: str, instance: str | None, *, as_json: bool = False) -> InstanceState:
    """The instance's state; the site file is read only for its name."""
    if instance:
        return InstanceState.of(instance)
    _, loaded = load_or_exit(site, as_json=as_json)
    return InstanceState.of(loaded.site)


def _stored_plan(store: InstanceState) -> Plan:
    """The plan that the instance was last brought up with."""
    try:
        return Plan.model_validate_json(store.plan.read_bytes())
    except (OSError, ValueError):
        raise LabError(f"instance {store.name}: never brought up by this version; bring it up: pinion lab up") from None


def _management_host(store: InstanceState) -> str:
    """Name of the machine whose position an operator takes."""
    for device in _stored_plan(store).devices:
        if device.lab and device.kind is DeviceKind.MANAGEMENT_HOST:
            return device.name
    raise LabError(f"instance {store.name}: its plan has no management host in the lab; name a machine with --machine")


def _switch_user(store: InstanceState, name: str) -> str:
    """The login of a switch; its password is in the file that ``endpoints.json`` names."""
    switches = read_json(store.endpoints).get("switches")
    entry = switches.get(name) if isinstance(switches, dict) else None
    if not isinstance(entry, dict):
        raise LabError(f"{name}: its command line does not run; bring it up: pinion lab up --parts switch")
    click.echo(f"password: see {entry.get('password_file')}", err=True)
    return str(entry.get("user"))


def _tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
