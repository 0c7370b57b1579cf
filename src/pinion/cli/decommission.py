"""`pinion decommission`: a node leaves its site."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

from pinion.bringup.access import access_of
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.decommission import (
    Notes,
    NotReadyError,
    Result,
    Survey,
    Wish,
    carry_out,
    not_stated,
    own_changes,
    stays,
    survey,
)
from pinion.bringup.host_shell import HostRefusedError, UnreachedError
from pinion.bringup.leaving_site import LiveMeans
from pinion.bringup.programs import ProgramMissingError
from pinion.bringup.stack_environment import StackError
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, host_of, load_or_exit
from pinion.cli.asking import confirm
from pinion.cli.completing import hosts, sites
from pinion.cli.console import new_console
from pinion.drivers.identity.place import AuthorityError
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.leaving import ports, staying
from pinion.plan.model import HostPlan
from pinion.site.find import repository

#: What a step may end with when something outside did not do its part; running the command again goes on.
_OUTSIDE = (
    AuthorityError,
    ClusterNodeError,
    HostRefusedError,
    OSError,
    ProgramMissingError,
    StackError,
    UnreachedError,
)


@click.command(
    epilog="""\b
Examples:
  pinion decommission dc-rack-12 pi-03 --wipe
  pinion decommission dc-rack-12 pi-03 --stolen                     in other hands, with its disk
  pinion decommission dc-rack-12 pi-03 --offline --serial 5F2A…     it is dead; its certificate is revoked all the same

\b
First the site file must say it (decommissioned: [pi-03]); the command says where. When it is done, take the node out of the site
file altogether, and the next `pulumi up` takes it out of NetBox. See docs/decommissioning.md.
"""
)
@click.argument("site", shell_complete=sites)
@click.argument("node", shell_complete=hosts)
@click.option("--wipe", is_flag=True, help="Wipe keys, certificates, models and notes of Pinion on the node first.")
@click.option("--offline", is_flag=True, help="The node is dead or gone: ask it for nothing.")
@click.option(
    "--stolen",
    is_flag=True,
    help="It is in other hands, with all that is on it: nothing is asked of it, and renewal is refused first of all.",
)
@click.option(
    "--no-drain", is_flag=True, help="Do not move its pods elsewhere first: they are gone already, or may be cut off."
)
@click.option("--serial", metavar="HEX", help="The certificate's serial number; else the node is asked for it.")
@click.option("--reason", default="decommissioned", show_default=True, help="Kept by the authority.")
@click.option(
    "--others", is_flag=True, help="Let the stack's update also change what has nothing to do with this node."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; progress goes to standard error.")
def decommission(
    site: str,
    node: str,
    wipe: bool,
    offline: bool,
    stolen: bool,
    no_drain: bool,
    serial: str | None,
    reason: str,
    others: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Take NODE out of SITE: certificate revoked, data wiped on request, NetBox and switch port as the site file says, all of it proved.

    Shows what will be done and asks. Safe to kill and to run again.
    """
    if wipe and offline:
        raise click.UsageError("--wipe logs in to the node, --offline does not: say one of them")
    if wipe and stolen:
        raise click.UsageError(
            "--wipe logs in to the node, and with --stolen nobody believes what answers there: say one of them"
        )
    path, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    before = staying(loaded, node)
    host = host_of(before, node)
    notes = Notes(repository() / ".pinion" / "decommission" / loaded.site / f"{node}.json")
    missing = not_stated(loaded, path, node)
    if missing is not None:
        click.echo(missing, err=True)
        raise SystemExit(PROBLEM)
    wish = Wish(wipe, offline, not no_drain, others, _number(serial), reason, stolen)

    def tell(line: str) -> None:
        click.echo(line, err=as_json)

    try:
        means = LiveMeans(repository(), plan, access_of(repository(), plan.site), path, tell)
        found = survey(plan, host, wish, means, notes)
        _show(plan, host, wish, found, err=as_json)
        confirm(f"decommission {node}", yes=yes)
        result = carry_out(plan, host, wish, found, means, notes, lambda step, said: tell(f"{step:<12} {said}"))
    except NotReadyError as error:
        click.echo(str(error), err=True)
        raise SystemExit(PROBLEM) from None
    except _OUTSIDE as error:
        click.echo(f"{error}\nWhen that is mended, run the same command again: it goes on.", err=True)
        raise SystemExit(COULD_NOT_RUN) from error
    left = (*stays(host, found, result.report), *result.left)
    if as_json:
        click.echo(json.dumps(_as_json(plan, node, result, left), indent=2))
    else:
        _summary(path, node, result, left)
    raise SystemExit(PROBLEM if result.problems else FINE)


def _number(serial: str | None) -> int | None:
    try:
        return None if serial is None else int(serial, 16)
    except ValueError:
        raise click.BadParameter(f"'{serial}' is not a hexadecimal number", param_hint="--serial") from None


def _show(plan: Plan, host: HostPlan, wish: Wish, found: Survey, *, err: bool) -> None:
    """What will be done."""
    lines = [f"{host.name} ({host.address}) leaves {plan.site}:"]
    if found.authority:
        lines.append(f"  renewal      refused by name, whatever {host.name} or who copied it has")
        known = (
            f"{found.serial:X} is revoked too"
            if found.serial is not None
            else "its number is not known, and need not be"
        )
        lines.append(f"  certificate  {known}")
    if found.here is not None:
        lines += [f"  wipe         {one.path}: {one.files} files, {one.bytes} bytes" for one in found.here.there]
        lines += [] if found.here.there else ["  wipe         there is nothing of ours on it"]
        lines += [f"  medium       {medium}" for medium in found.here.media]
    elif wish.wipe:
        lines.append("  wipe         was done before; the node cannot be reached any more")
    else:
        lines.append("  wipe         no (--wipe): keys and data stay on its medium")
    lines += [f"  ports        {switch} {port} is shut" for switch, port in ports(plan, host.name)]
    mine, others = own_changes(plan, host.name, found.changes)
    lines += [f"  stack        {change}" for change in mine] or ["  stack        nothing is to change"]
    lines += [f"  stack, other {change}" for change in others]
    for line in lines:
        click.echo(line, err=err)


def _as_json(plan: Plan, node: str, result: Result, left: tuple[str, ...]) -> dict[str, object]:
    return {
        "site": plan.site,
        "node": node,
        "steps": [{"step": step, "said": said} for step, said in result.steps],
        "refused": result.refused.at.isoformat(timespec="seconds") if result.refused is not None else None,
        "worthless_by": result.refused.ends.isoformat(timespec="seconds") if result.refused is not None else None,
        "problems": result.problems,
        "wiped": result.report.model_dump(mode="json") if result.report is not None else None,
        "findings": [finding.model_dump(mode="json") for finding in result.findings],
        "stays": left,
    }


def _summary(path: Path, node: str, result: Result, left: tuple[str, ...]) -> None:
    console = new_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    for step, said in result.steps:
        table.add_row(step, said)
    console.print()
    console.print(table, highlight=False)
    for line in left:
        console.print(f"stays: {line}", highlight=False, soft_wrap=True, markup=False)
    for line in result.problems:
        console.print(f"problem: {line}", highlight=False, soft_wrap=True, markup=False)
    if not result.problems:
        console.print(
            f"{node} is out of service. Take it out of {path} altogether (its entry, and under decommissioned), then: pulumi up",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
