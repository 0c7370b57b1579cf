"""`pinion explain`: what an error code of the site file means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pinion.cli.arguments import CannotRunError
from pinion.cli.completing import codes

if TYPE_CHECKING:
    from pinion.site.errors import Kind


@click.command(epilog="\b\nExamples:\n  pinion explain NET-021\n  pinion explain gateway")
@click.argument("about", metavar="CODE|WORDS", shell_complete=codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(about: str, as_json: bool) -> None:
    """Say what an error code means and how it is mended: of one CODE, or of every code whose text has all of WORDS.

    Words in braces stand for what the site file says there.
    """
    found = _about(about)
    if not found:
        raise CannotRunError(f"no error code is '{about}' and none has these words; docs/reference/errors.md lists all")
    if as_json:
        click.echo(json.dumps([kind.said() for kind in found], indent=2))
        return
    click.echo("\n\n".join(map(_told, found)))


def _about(about: str) -> list[Kind]:
    """The kind of problem whose code *about* is; else those that have all its words."""
    from pinion.site.errors import catalogue  # reads a file that other commands need not

    known = catalogue()
    exact = known.get(about.upper())
    if exact is not None:
        return [exact]
    words = about.lower().split()
    texts = {code: " ".join(kind.said().values()).lower() for code, kind in known.items()}
    return [kind for code, kind in known.items() if words and all(word in texts[code] for word in words)]


def _told(kind: Kind) -> str:
    said = kind.said()
    words = f"{kind.code} {kind.title} ({kind.topic})\n    says: {said['wrong']}\n    fix:  {said['fix']}"
    return f"{words}\n    a person must choose: {kind.choice}" if kind.choice and kind.fix.text is None else words
