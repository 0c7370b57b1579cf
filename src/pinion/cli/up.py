"""`pinion up` and `pinion down`: the whole of a site in one command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.table import Table

from pinion.bringup.stages import StageFailedError, StageResult, run, stages
from pinion.checks.model import Finding, InferenceProbe, Outcome
from pinion.checks.report import told
from pinion.cli.arguments import load_or_exit
from pinion.cli.completing import sites
from pinion.cli.console import new_console
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.pool import model_settings, pool_releases


@click.command(
    epilog="""\b
Examples:
  pinion up lab                 the rack in a box, from nothing to a report
  pinion up dc-rack-12          a real site whose stack is configured (docs/real-site.md)
  pinion up lab --by pyinfra
"""
)
@click.argument("site", shell_complete=sites)
@click.option("--instance", help="Name of the lab instance; default: the site's name.")
@click.option(
    "--by",
    type=click.Choice(["ansible", "pyinfra"]),
    default="ansible",
    show_default=True,
    help="What converges the hosts.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the HTML report goes; default: reports/SITE.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; progress goes to standard error.")
def up(site: str, instance: str | None, by: str, report: Path | None, as_json: bool) -> None:
    """Bring SITE up: lab machines (where the site has any), Pulumi, hosts, verification. Safe to kill and to run again."""
    path, loaded = load_or_exit(site, as_json=as_json)
    compiled = compile_plan(loaded)
    endpoints = _lab_endpoints(compiled, instance or compiled.site)
    written = (report or Path("reports") / f"{compiled.site}.html").resolve()
    began = time.monotonic()
    results: list[StageResult] = []
    for stage in stages(compiled, str(path), instance, by=by, report=written, endpoints=endpoints):
        if not stage.wanted({result.name: result.answer for result in results}):
            continue

        def say(text: str, name: str = stage.name) -> None:
            click.echo(f"[{time.monotonic() - began:6.1f}s] {name:<7} {text}", err=as_json)

        say("begins")
        try:
            results.append(run(stage, say))
        except StageFailedError as error:
            say(f"failed (exit code {error.code}); what it said is above. Run the same command again to go on.")
            raise SystemExit(error.code) from None
        for line in _unproved(results[-1].answer):
            say(line)
        say(f"{results[-1].changes} changes in {results[-1].seconds:.1f} s")
    if as_json:
        click.echo(
            json.dumps(
                [
                    {"stage": r.name, "changes": r.changes, "seconds": round(r.seconds, 1), "code": r.code}
                    for r in results
                ]
            )
        )
    else:
        _summary(compiled, results, endpoints, written)
    raise SystemExit(results[-1].code)


def _unproved(answer: Mapping[str, object]) -> list[str]:
    """A line for each claim of a verification's *answer* that failed or could not be tried."""
    findings = answer.get("findings")
    if not isinstance(findings, list):
        return []
    bad = [Finding.model_validate(one) for one in findings if one["outcome"] != Outcome.PROVED]
    return [f"{told(one)}; {one.check.remedy}" for one in bad]


def _lab_endpoints(plan: Plan, instance: str) -> Path | None:
    """Where the lab writes down its services; None for a site without lab devices."""
    if not any(device.lab for device in plan.devices):
        return None
    from pinion.lab.state import state_root

    return state_root() / instance / "endpoints.json"


def _summary(plan: Plan, results: Sequence[StageResult], endpoints: Path | None, report: Path) -> None:
    console = new_console()
    table = Table(box=None, pad_edge=False)
    for title in ("stage", "changes", "seconds"):
        table.add_column(title, justify="left" if title == "stage" else "right")
    for result in results:
        table.add_row(result.name, str(result.changes), f"{result.seconds:.1f}")
    console.print()
    console.print(table)
    proof: Mapping[str, object] = results[-1].answer
    console.print(
        f"\nexists   {len(plan.devices)} devices, {len(plan.vlans)} VLANs, {len(plan.switches)} switches, {len(plan.hosts)} hosts"
    )
    console.print(f"claims   {_counts(proof.get('summary'))}")
    console.print(f"evidence {_counts(proof.get('evidence'))}")
    for line in _models(plan, proof.get("findings")):
        console.print(f"model    {line}", highlight=False, soft_wrap=True)
    if endpoints is not None and endpoints.is_file():
        known = json.loads(endpoints.read_text())
        console.print(f"NetBox   {_page(known.get('netbox', {}))}", highlight=False, soft_wrap=True)
        console.print(
            f"API      {known.get('kubernetes', {}).get('server', 'not running')}", highlight=False, soft_wrap=True
        )
        console.print("inside   make shell", highlight=False)
    console.print(f"report   {report}", highlight=False, soft_wrap=True)


def _models(plan: Plan, findings: object) -> list[str]:
    """A line for each model of the pool: where in the cluster it answers, and what verification found of it."""
    said: dict[str, list[str]] = {}
    for found in map(Finding.model_validate, findings if isinstance(findings, list) else ()):
        if isinstance(found.check.probe, InferenceProbe) and found.check.probe.asks != "digest":
            said.setdefault(found.check.subject, []).append(f"{found.check.probe.asks}: {found.found}")
    releases = pool_releases(plan.cluster) if plan.cluster is not None else ()
    return [
        "; ".join(
            [f"{name} by Triton at {release.name}.{release.namespace}:{release.port}", *said.get(release.name, ())]
        )
        for release in releases
        for name in model_settings(release)
    ]


def _page(netbox: Mapping[str, str]) -> str:
    """Where NetBox's pages are, who logs in there, and where the password lies."""
    if "browser_url" not in netbox:
        return "not running"
    return f"{netbox['browser_url']} as {netbox['admin_user']}; the password is in {netbox['admin_password_file']}"


def _counts(counted: object) -> str:
    return (
        ", ".join(f"{count} {name}" for name, count in counted.items())
        if isinstance(counted, Mapping) and counted
        else "none"
    )


@click.command(epilog="\b\nExample:\n  pinion down lab")
@click.argument("site", shell_complete=sites)
@click.option("--instance", help="Name of the lab instance; default: the site's name.")
@click.option("--purge", is_flag=True, help="Also delete the data of its machines.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def down(site: str, instance: str | None, purge: bool, as_json: bool) -> None:
    """Take the lab of SITE down. A real site has nothing to take down: use `pulumi destroy`."""
    arguments = [
        *(["--instance", instance] if instance else []),
        *(["--purge"] if purge else []),
        *(["--json"] if as_json else []),
    ]
    command = [sys.executable, "-m", "pinion", "lab", "down", "--site", site, *arguments]
    done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE)
    click.echo(done.stdout, nl=False)
    raise SystemExit(done.returncode)
