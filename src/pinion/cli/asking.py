"""A person's word before something is changed that cannot be taken back at once."""

from __future__ import annotations

import sys

import click

from pinion.cli.arguments import COULD_NOT_RUN, PROBLEM


def confirm(deed: str, *, yes: bool) -> None:
    """Have a person's word for *deed*, as "reboot 3 hosts"; *yes*: it was given. Ends the command where it is not, with nothing touched."""
    if yes:
        return
    if not sys.stdin.isatty():
        click.echo(f"nobody to ask: say --yes to {deed}; nothing was touched", err=True)
        raise SystemExit(COULD_NOT_RUN)
    if not click.confirm(f"{deed}?", err=True):
        click.echo("nothing was touched", err=True)
        raise SystemExit(PROBLEM)
