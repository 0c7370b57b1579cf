"""Arguments that several commands take: the site, and how problems of a site file leave the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinion.cli.screen import harmless
from pinion.site.find import site_file

if TYPE_CHECKING:
    from pinion.plan.model import HostPlan, Plan
    from pinion.site.model import Site

#: Exit codes of every command (the convention of the project, after DeepOps' validators).
FINE, PROBLEM, COULD_NOT_RUN = 0, 1, 2


class CannotRunError(click.ClickException):
    """Why a command cannot run, in one line."""

    exit_code = COULD_NOT_RUN


def site_path(written: str) -> Path:
    """The site file that *written* means; `CannotRunError` when there is none."""
    try:
        return site_file(written)
    except OSError as error:
        raise CannotRunError(str(error)) from None


def load_or_exit(written: str, *, as_json: bool) -> tuple[Path, Site]:
    """Load the site *written*; print every problem and exit with 1 when it has any."""
    # its models take a third of a second to import, and not every command needs them
    from pinion.site.loader import SiteErrors, load

    path = site_path(written)
    try:
        return path, load(path)
    except SiteErrors as errors:
        if as_json:
            click.echo(json.dumps({"problems": [problem.as_dict() for problem in errors.problems]}, indent=2))
        else:
            click.echo(harmless(str(errors)), err=True)
        raise SystemExit(PROBLEM) from None


def host_of(plan: Plan, node: str) -> HostPlan:
    """The host that *node* names; `click.BadParameter` (exit code 2), with those that there are, when there is none."""
    for host in plan.hosts:
        if host.name == node:
            return host
    names = ", ".join(host.name for host in plan.hosts)
    raise click.BadParameter(f"{plan.site} has no host '{node}'; it has {names}", param_hint="NODE")
