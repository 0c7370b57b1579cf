"""`pinion fabric`: the traffic classes of a site, hop by hop, and whether all files agree on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pinion.cli.arguments import FINE, PROBLEM, CannotRunError, load_or_exit
from pinion.cli.completing import sites
from pinion.cli.screen import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pinion.checks.fabric.artefacts import Artefact
    from pinion.checks.fabric.hops import Hop
    from pinion.plan.model import Plan


@click.group(
    epilog="""\b
Examples:
  pinion fabric explain lab
  pinion fabric check dc-rack-12
"""
)
def fabric() -> None:
    """The traffic classes of a site: what every hop does with them, and whether switches and NICs agree."""


_FROM = click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Read the files below FOLDER (`pinion fabric write` shows which) instead of what follows from the site.",
)


@fabric.command(
    epilog="""\b
Examples:
  pinion fabric explain lab
  pinion fabric explain dc-rack-12 --json
"""
)
@click.argument("site", shell_complete=sites)
@_FROM
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(site: str, folder: Path | None, as_json: bool) -> None:
    """Print what every hop of SITE does with one packet of each class: NIC, switches, the far NIC.

    It is read from the files that switches and NICs get. `-` means that nothing there says it; `first` that the queue is served before
    those with a share. 802.1p is a mark of links with tags alone.
    """
    from pinion.checks.fabric.agreement import read
    from pinion.checks.fabric.hops import hops
    from pinion.plan import plan as compile_plan
    from pinion.site import catalog
    from pinion.site.catalog import Evidence

    _, loaded = load_or_exit(site, as_json=as_json)
    compiled = compile_plan(loaded)
    found = hops(loaded, catalog.load(), compiled, read(compiled, _artefacts(compiled, folder)))
    if as_json:
        click.echo(json.dumps([hop.model_dump() for hop in found], indent=2))
        return
    if not found:
        click.echo(f"{compiled.site} has no traffic classes, or no two hosts that use one")
        return
    click.echo(f"{_table(found)}\n\nEvidence: {Evidence.PARSED}. Files were read; no switch and no card was asked.")


@fabric.command(
    epilog="""\b
Examples:
  pinion fabric check dc-rack-12
  pinion fabric check dc-rack-12 --from backup/ --json

\b
Exit codes: 0 all files agree, 1 some do not, 2 they could not be read.
"""
)
@click.argument("site", shell_complete=sites)
@_FROM
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(site: str, folder: Path | None, as_json: bool) -> None:
    """Prove that the files of switches and NICs of SITE agree on the traffic classes; name each contradiction with file and line."""
    from pinion.checks.fabric.agreement import contradictions
    from pinion.plan import plan as compile_plan
    from pinion.site import catalog

    _, loaded = load_or_exit(site, as_json=as_json)
    compiled = compile_plan(loaded)
    artefacts = _artefacts(compiled, folder)
    found = contradictions(loaded, catalog.load(), compiled, artefacts)
    if as_json:
        told = [{"file": one.file, "line": one.line or None, "wrong": one.wrong, "fix": one.fix} for one in found]
        click.echo(json.dumps({"ok": not found, "files": len(artefacts), "contradictions": told}, indent=2))
    elif found:
        click.echo("\n".join(harmless(str(one)) for one in found))
    else:
        click.echo(f"{compiled.site}: {len(artefacts)} files agree")
    raise SystemExit(PROBLEM if found else FINE)


@fabric.command(epilog="\b\nExample:\n  pinion fabric write dc-rack-12 /tmp/fabric")
@click.argument("site", shell_complete=sites)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def write(site: str, folder: Path, as_json: bool) -> None:
    """Write the files of SITE that have a part in the traffic classes below FOLDER: `switches/NAME.cfg`, `hosts/NAME/etc/…`."""
    from pinion.checks.fabric import artefacts
    from pinion.plan import plan as compile_plan

    _, loaded = load_or_exit(site, as_json=as_json)
    try:
        written = artefacts.write(folder, compile_plan(loaded))
    except OSError as error:
        raise CannotRunError(f"{error.filename or folder}: {error.strerror}") from None
    paths = [str(path) for path in written]
    click.echo(json.dumps({"written": paths}, indent=2) if as_json else "\n".join(map(harmless, paths)))


def _artefacts(compiled: Plan, folder: Path | None) -> Sequence[Artefact]:
    from pinion.checks.fabric import artefacts

    if folder is None:
        return artefacts.rendered(compiled)
    try:
        return artefacts.in_folder(folder, compiled)
    except OSError as error:
        raise CannotRunError(f"{error.filename or folder}: {error.strerror}") from None


_HEADINGS = ("class", "where", "port", "DSCP", "802.1p", "queue", "share", "PFC", "ECN", "MTU")


def _table(found: Sequence[Hop]) -> str:
    rows = [_HEADINGS, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for place in reversed([at for at in range(1, len(found)) if found[at].place.startswith("from ")]):
        lines.insert(place + 1, "")
    return "\n".join(lines)


def _row(hop: Hop) -> tuple[str, ...]:
    served = "first" if hop.queue is not None and hop.ecn is None and hop.place.startswith("leaf") else "-"
    pfc = "-" if hop.pfc is None else ",".join(map(str, hop.pfc)) or "off"
    numbers = [str(value) if value is not None else "-" for value in (hop.dscp, hop.priority, hop.queue)]
    share = f"{hop.share} %" if hop.share is not None else served
    return (hop.traffic_class, hop.place, hop.port, *numbers, share, pfc, hop.ecn or "-", str(hop.mtu or "-"))
