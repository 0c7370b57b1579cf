"""`pinion stack`: the Pulumi stack of a site. Everything here can be done with plain `pulumi` too; these commands save typing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from pinion.bringup import stack as pulumi_stack
from pinion.bringup.hand_over import hand_over as forget
from pinion.bringup.programs import ProgramMissingError, obtain
from pinion.bringup.stack_environment import StackError
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, CannotRunError, load_or_exit
from pinion.cli.completing import sites
from pinion.site.find import repository
from pinion.site.model import ClusterOwner


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def stack() -> None:
    """Prepare the Pulumi stack of a site, bring it up, free it from the lock of a killed run, hand its cluster over."""


@stack.command(epilog="\b\nExample:\n  pinion stack prepare dc-rack-12 --endpoints ~/dc-rack-12/endpoints.json")
@click.argument("site", shell_complete=sites)
@click.option(
    "--endpoints",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="JSON file that says where NetBox, switches and cluster are and which files hold their credentials.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prepare(site: str, endpoints: Path, as_json: bool) -> None:
    """Create SITE's stack when it is missing and set its configuration; secrets are stored encrypted."""
    _, loaded = load_or_exit(site, as_json=as_json)
    try:
        obtain(["pulumi"], lambda line: click.echo(line, err=True))
        settings = pulumi_stack.settings_from_endpoints(json.loads(endpoints.read_text()))
        changed = pulumi_stack.prepare(repository(), loaded.site, settings)
    except (StackError, ProgramMissingError, OSError, ValueError, KeyError) as error:
        click.echo(f"{endpoints}: {error}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    click.echo(
        json.dumps({"changed": changed}) if as_json else f"stack {loaded.site}: {changed} configuration values changed"
    )


@stack.command(epilog="\b\nExample:\n  pinion stack up lab --refresh")
@click.argument("site", shell_complete=sites)
@click.option(
    "--refresh/--no-refresh", default=True, show_default=True, help="Read the world first, so that drift is repaired."
)
@click.option("--parallel", type=click.IntRange(min=1), help="How many resources at once; default: pulumi's own.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; progress goes to standard error.")
def up(site: str, refresh: bool, parallel: int | None, as_json: bool) -> None:
    """Run `pulumi up` for SITE after removing the lock of a killed run on this machine."""
    _, loaded = load_or_exit(site, as_json=as_json)
    started = time.monotonic()

    def progress(line: str) -> None:
        click.echo(line, err=as_json)

    try:
        obtain(["pulumi", "helm"], progress)
        locks = pulumi_stack.remove_stale_locks(repository(), loaded.site)
        for line in (*(f"removed {lock}" for lock in locks.removed), *locks.unclear):
            progress(line)
        result = pulumi_stack.up(repository(), loaded.site, refresh=refresh, progress=progress, parallel=parallel)
    except (StackError, ProgramMissingError) as error:
        click.echo(str(error), err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    if result.awaited:
        progress(
            f"not in the cluster yet: {', '.join(result.awaited)}; labels and taints follow with the first update after they have joined"
        )
    for operation in result.unfinished:
        progress(
            f"a killed run was at: {operation}; the site file no longer has it, so look whether it exists and remove it,"
            " then: pulumi refresh --clear-pending-creates"
        )
    if as_json:
        click.echo(
            json.dumps(
                {
                    "changes": result.changes,
                    "changed": result.changed,
                    "touched": result.touched,
                    "awaited": result.awaited,
                    "unfinished": result.unfinished,
                }
            )
        )
    else:
        same = result.changes.get("same", 0)
        click.echo(f"{result.changed} changes, {same} unchanged, {time.monotonic() - started:.0f} s")


@stack.command("hand-over", epilog="\b\nExample:\n  pinion stack hand-over lab")
@click.argument("site", shell_complete=sites)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hand_over(site: str, as_json: bool) -> None:
    """Have SITE's stack forget the namespaces, policies and releases that Flux or Argo CD owns; the cluster is not touched."""
    _, loaded = load_or_exit(site, as_json=as_json)
    owner = loaded.kubernetes.owner if loaded.kubernetes is not None else ClusterOwner.PULUMI
    if owner is ClusterOwner.PULUMI:
        raise CannotRunError(
            f"site {loaded.site} leaves its cluster to pulumi; state kubernetes.owner: flux or argocd first"
        )
    try:
        obtain(["pulumi"], lambda line: click.echo(line, err=True))
        pulumi_stack.remove_stale_locks(repository(), loaded.site)
        forgotten = forget(repository(), loaded.site)
    except (StackError, ProgramMissingError) as error:
        raise CannotRunError(str(error)) from None
    if as_json:
        click.echo(json.dumps({"owner": owner.value, "forgotten": forgotten}))
    else:
        click.echo(
            "\n".join(f"forgotten: {name}" for name in forgotten) or "the stack knows of nothing that is not its own"
        )


@stack.command(epilog="\b\nExample:\n  pinion stack unlock lab")
@click.argument("site", shell_complete=sites)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def unlock(site: str, as_json: bool) -> None:
    """Remove locks of SITE's stack whose process on this machine is gone. A running update keeps its lock.

    Exits with 1 when there is a lock that does not say who holds it: it stays, and is named.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    try:
        locks = pulumi_stack.remove_stale_locks(repository(), loaded.site)
    except (StackError, OSError) as error:
        click.echo(str(error), err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    if as_json:
        click.echo(json.dumps({"removed": locks.removed, "unclear": locks.unclear}))
    else:
        click.echo("\n".join((*locks.removed, *locks.unclear)) or "no stale lock")
    raise SystemExit(PROBLEM if locks.unclear else FINE)
