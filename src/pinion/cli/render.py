"""`pinion render`: the cluster of a site as files, for Flux or Argo CD."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pinion.cli.arguments import FINE, PROBLEM, CannotRunError, load_or_exit
from pinion.cli.completing import sites
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.cluster import CHARTS
from pinion.provider.cluster import charts
from pinion.render.gitops import NoTreeError, Tree, tree
from pinion.render.gitops.folder import NotOursError, differing, write
from pinion.site.model import ClusterOwner

_TOOLS = [owner.value for owner in ClusterOwner if owner is not ClusterOwner.PULUMI]


@click.command(
    epilog="""\b
Examples:
  pinion render lab --gitops flux ~/racks/clusters/lab
  pinion render lab --gitops argocd ~/racks/clusters/lab --check
"""
)
@click.argument("site", shell_complete=sites)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--gitops", "tool", required=True, type=click.Choice(_TOOLS), help="Who makes the cluster from the files."
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; exit with 1 and the files that differ when DIR is not the current tree.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def render(site: str, folder: Path, tool: str, check: bool, as_json: bool) -> None:
    """Write what `pulumi up` would apply to SITE's cluster to DIR, as files for Flux or Argo CD."""
    _, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    try:
        made = tree(plan, ClusterOwner(tool), _charts(plan))
        differs = differing(folder, made) if check else write(folder, made)
    except (NoTreeError, NotOursError) as error:
        raise CannotRunError(str(error)) from None
    if as_json:
        click.echo(json.dumps(_as_json(folder, made, differs), indent=2))
    else:
        click.echo("\n".join(_told(folder, made, differs, check=check)))
    raise SystemExit(PROBLEM if check and differs else FINE)


def _charts(plan: Plan) -> dict[str, dict[str, bytes]]:
    """The contents of each chart that *plan* names."""
    names = {release.chart for release in plan.cluster.releases} if plan.cluster is not None else set()
    return {name: dict(charts.contents(charts.place(f"{CHARTS}/{name}"))) for name in sorted(names)}


def _as_json(folder: Path, made: Tree, differs: dict[str, str]) -> dict[str, object]:
    left = [{"what": item.what, "objects": item.objects, "why": item.why, "by": "pulumi up"} for item in made.left]
    return {
        "site": made.site,
        "gitops": made.tool.value,
        "folder": str(folder),
        "files": list(made.files),
        "differs": differs,
        "left": left,
    }


def _told(folder: Path, made: Tree, differs: dict[str, str], *, check: bool) -> list[str]:
    lines = [f"{state:<8} {path}" for path, state in differs.items()] if check else []
    if check:
        lines.append(f"{folder}: {len(differs)} files differ" if differs else f"{folder} is the current tree")
    else:
        lines.append(
            f"{folder}: {len(differs)} files written, changed or removed"
            if differs
            else f"{folder} is the current tree"
        )
    lines += [f"stays with pulumi up: {item.what} ({', '.join(item.objects)})" for item in made.left]
    return lines
