"""`pinion converge`: bring hosts to their planned state, by Ansible or by pyinfra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import click

from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, load_or_exit
from pinion.drivers.hosts.answers import VARIABLE, HostResult, collect
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.site.find import repository


@click.command(
    epilog="""\b
Examples:
  pinion converge lab
  pinion converge lab --by pyinfra --check
  pinion converge dc-rack-12 --limit 'pi-0*'

\b
How to log in: PINION_SSH_KEY and PINION_KNOWN_HOSTS name files; unset, your SSH agent and known_hosts are used.
"""
)
@click.argument("site")
@click.option("--by", type=click.Choice(["ansible", "pyinfra"]), default="ansible", show_default=True)
@click.option("--check", is_flag=True, help="Change nothing; show what differs and exit with 1 when anything does.")
@click.option(
    "--limit", multiple=True, metavar="PATTERN", help="Only hosts whose name or group matches; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def converge(site: str, by: str, check: bool, limit: tuple[str, ...], as_json: bool) -> None:
    """Bring the hosts of SITE to their planned state. A host that cannot be reached has failed."""
    path, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    hosts = chosen(plan, limit)
    if not hosts:
        raise click.BadParameter(f"no host of {plan.site} matches {', '.join(limit) or 'it'}", param_hint="--limit")
    root = repository()
    with tempfile.TemporaryDirectory(prefix="pinion-converge-") as folder:
        answers = Path(folder) / "answers"
        command = (ansible if by == "ansible" else pyinfra)(path.resolve(), hosts, check=check)
        environment = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), VARIABLE: str(answers)}
        try:
            # What the program says is progress: people read it on standard error.
            code = subprocess.run(command, cwd=root, env=environment, stdout=sys.stderr, check=False).returncode
        except OSError as error:
            raise click.ClickException(f"{by} could not be started: {error}") from error
        results = collect(answers, hosts)
    _print(plan.site, by, check, results, as_json=as_json)
    raise SystemExit(exit_code(results, code, check=check))


def chosen(plan: Plan, patterns: Sequence[str]) -> tuple[str, ...]:
    """The names of the hosts that match any of *patterns* by name or group; all without a pattern."""
    return tuple(
        host.name
        for host in plan.hosts
        if not patterns or any(fnmatch(name, pattern) for name in (host.name, *host.groups) for pattern in patterns)
    )


def ansible(path: Path, hosts: Sequence[str], *, check: bool) -> list[str]:
    """The ansible-playbook command for *hosts* of the site file *path*."""
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        str(path),
        "-l",
        ",".join(hosts),
        "playbooks/site.yml",
    ]
    return [*command, "--check", "--diff"] if check else command


def pyinfra(path: Path, hosts: Sequence[str], *, check: bool) -> list[str]:
    """The pyinfra command for *hosts* of the site file *path*."""
    limits = [part for host in hosts for part in ("--limit", host)]
    command = [sys.executable, "-m", "pyinfra", f"@pinion/{path}", "deploys/site.py", *limits]
    return [*command, "--dry", "--diff"] if check else [*command, "-y"]


def exit_code(results: Mapping[str, HostResult], code: int, *, check: bool) -> int:
    """0 when every host is as planned, 1 when one is not (or, checking, differs), 2 when the program ended badly for another reason."""
    if any(result.errors for result in results.values()):
        return PROBLEM
    if code != 0:
        return COULD_NOT_RUN
    return PROBLEM if check and any(result.changes for result in results.values()) else FINE


def _print(site: str, by: str, check: bool, results: Mapping[str, HostResult], *, as_json: bool) -> None:
    changed = sum(len(result.changes) for result in results.values())
    failed = [name for name, result in results.items() if result.errors]
    if as_json:
        hosts = {name: result.as_json() for name, result in results.items()}
        answer = {"site": site, "by": by, "check": check, "changed": changed, "failed": failed, "hosts": hosts}
        click.echo(json.dumps(answer, indent=2))
        return
    for name, result in results.items():
        verdict = "FAILED: " + "; ".join(result.errors) if result.errors else f"{len(result.changes)} changes"
        click.echo(f"{name:<12} {verdict}")
    verb = "to change" if check else "changed"
    click.echo(f"{len(results)} hosts, {changed} things {verb}, {len(failed)} failed")
