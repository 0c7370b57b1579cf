"""`pinion plan`: what follows from a site file."""

from __future__ import annotations

import json

import click

from pinion.cli.arguments import FINE, PROBLEM, load_or_exit
from pinion.cli.completing import sites
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.diff import differences


@click.command(
    epilog="""\b
Examples:
  pinion plan lab
  pinion plan dc-rack-12 --json > plan.json
  pinion plan lab --diff /tmp/site-with-a-fifth-pi.yml
"""
)
@click.argument("site", required=False, shell_complete=sites)
@click.option(
    "--diff", "other", metavar="OTHER", help="Show what changes from SITE to OTHER; exit with 1 when anything does."
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a plan.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(site: str | None, other: str | None, schema: bool, as_json: bool) -> None:
    """Print everything that follows from SITE (a path, or a name under inventories/)."""
    if schema:
        click.echo(json.dumps(Plan.model_json_schema(), indent=2, sort_keys=True))
        return
    if site is None:
        raise click.UsageError("name a site, or ask for --schema")
    _, loaded = load_or_exit(site, as_json=as_json)
    compiled = compile_plan(loaded)
    if other is not None:
        _, changed = load_or_exit(other, as_json=as_json)
        found = differences(compiled, compile_plan(changed))
        if as_json:
            click.echo(json.dumps([difference.model_dump() for difference in found], indent=2))
        else:
            click.echo("\n".join(map(str, found)) or "No difference.")
        raise SystemExit(PROBLEM if found else FINE)
    click.echo(compiled.model_dump_json(indent=2) if as_json else _summary(compiled))


def _summary(compiled: Plan) -> str:
    """The plan as a short page: networks, devices, ports."""
    lines = [f"site {compiled.site} ({compiled.region})", "", "VLANs"]
    for vlan in compiled.vlans:
        prefixes = ", ".join(f"{p.prefix}{f' gateway {p.gateway}' if p.gateway else ''}" for p in vlan.prefixes)
        lines.append(f"  {vlan.vid:>4}  {vlan.name:<18} {vlan.purpose:<11} {prefixes}  MTU {vlan.mtu}")
    lines += ["", "devices"]
    for device in compiled.devices:
        cables = ", ".join(
            f"{i.name} -> {i.cable.device} {i.cable.interface}" for i in device.interfaces if i.cable and i.owns_cable
        )
        leaves = "  (decommissioned: port shut)" if device.leaving else ""
        lines.append(f"  {device.name:<10} {device.kind:<16} {device.primary_address or '-':<20} {cables}{leaves}")
    if compiled.cluster is not None:
        lines += ["", f"cluster {compiled.cluster.server}"]
        for node in compiled.cluster.nodes:
            labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
            taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints)
            lines.append(f"  {node.name:<10} {labels} {taints}")
        lines += [f"  release {release.name} in {release.namespace}" for release in compiled.cluster.releases]
    return "\n".join(lines)
