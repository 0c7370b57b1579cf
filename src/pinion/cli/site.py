"""`pinion site`: check a site file, start a new one, print its JSON Schema."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click

from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, CannotRunError
from pinion.cli.completing import sites
from pinion.cli.screen import harmless
from pinion.site import schema as json_schema
from pinion.site import starter
from pinion.site.errors import Problem, SiteErrors
from pinion.site.find import repository, site_file
from pinion.site.loader import check as check_file
from pinion.site.loader import not_applied
from pinion.site.model import Site
from pinion.site.not_applied import Remark
from pinion.site.quantities import numbers
from pinion.site.reference import pages, stale
from pinion.site.statement import DNS_LABEL

#: The problem of a file that cannot be read at all.
UNREADABLE = "FILE-001"


@click.group()
def site() -> None:
    """Check a site file, start a new one, print its JSON Schema.

    \b
    Example:
      pinion site new rack-7 --defaults && pinion site check rack-7
    """


# --- check ----------------------------------------------------------------------------------------------------------------


@site.command(
    epilog="""\b
Examples:
  pinion site check lab
  pinion site check path/to/site.yml --json
"""
)
@click.argument("sites", metavar="SITE...", nargs=-1, required=True, shell_complete=sites)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(sites: tuple[str, ...], as_json: bool) -> None:
    """Find every mistake of SITE (a path, or a name under inventories/) in one run; change nothing.

    Each problem is told with file:line:column, its code (see docs/reference/errors.md), what is wrong, and the fix. Exits with 0 when
    there is none, 1 when there is any, 2 when a file cannot be read. Of a good file, what it states and nothing obeys yet is told too.
    """
    worst, answers = FINE, []
    for written in sites:
        path = _path(written)
        found, problems = check_file(path)
        unreadable = any(problem.code == UNREADABLE for problem in problems)
        worst = max(worst, COULD_NOT_RUN if unreadable else PROBLEM if problems else FINE)
        unobeyed = not_applied(path) if found is not None else ()
        answers.append(
            {
                "file": str(path),
                "ok": not problems,
                "problems": [problem.as_dict() for problem in problems],
                "not_applied": [remark.as_dict() for remark in unobeyed],
            }
        )
        if not as_json:
            _print(path, found, problems)
            _print_not_applied(path, unobeyed)
    if as_json:
        click.echo(json.dumps(answers[0] if len(answers) == 1 else answers, indent=2, ensure_ascii=False))
    raise SystemExit(worst)


def _path(written: str) -> Path:
    """The site file that *written* means, as short as it can be said; what does not exist is left to the loader to report."""
    try:
        path = site_file(written)
    except OSError as error:
        # A path is meant: the loader says what is wrong with it. A bare name is not known.
        if "/" in written or "." in written:
            return Path(written)
        raise CannotRunError(str(error)) from None
    near = os.path.relpath(path)
    return path if near.startswith("..") else Path(near)


def _print(path: Path, found: Site | None, problems: tuple[Problem, ...]) -> None:
    """One file's result for a person. Colours only on a terminal (click takes them away elsewhere)."""
    name = harmless(str(path))
    for problem in problems:
        place = f"{name}:{problem.line}:{problem.column}"
        click.echo(f"{click.style(place, bold=True)} {click.style(problem.code, fg='red')} {problem.message}")
        click.echo(f"    {click.style('fix:', fg='green')} {problem.fix}")
    if problems:
        click.echo(f"\n{name}: {_count(len(problems), 'problem')}")
    elif found is not None:
        pis = sum(len(numbers(group.numbers)) for group in found.pis.values())
        parts = (
            _count(len(found.networks), "network"),
            _count(len(found.switches), "switch", "switches"),
            _count(pis, "Pi"),
            _count(len(found.gpu_servers), "GPU server"),
        )
        click.echo(f"{name}: fine ({', '.join(parts)})")


def _print_not_applied(path: Path, unobeyed: tuple[Remark, ...]) -> None:
    """What a good file states in vain: told, and no reason to refuse it."""
    name = harmless(str(path))
    for remark in unobeyed:
        click.echo(f"{click.style(f'{name}:{remark.line}:{remark.column}', bold=True)} {remark.said}")
    if unobeyed:
        click.echo(f"{name}: {_count(len(unobeyed), 'statement')} that nothing obeys yet")


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


# --- new ------------------------------------------------------------------------------------------------------------------


@site.command(
    epilog="""\b
Examples:
  pinion site new rack-7                 asks a few questions
  pinion site new rack-7 --defaults      asks none
  pinion site new rack-7 --hardware --pis 16 --prefix 192.168.0.0/16 --defaults
"""
)
@click.argument("name")
@click.option("--defaults", is_flag=True, help="Ask nothing; take the default for what no option states.")
@click.option("--region", help="Name of the region.")
@click.option("--lab/--hardware", "lab", default=None, help="Machines that Pinion makes here, or real hardware.")
@click.option("--pis", type=click.IntRange(1, 40), help="Number of Raspberry Pis.")
@click.option("--board", type=click.Choice(starter.boards()), metavar="BOARD", help="Their board.")
@click.option("--hat", metavar="HAT", help="Their HAT, or none.")
@click.option("--gpu-server", "profile", metavar="PROFILE", help="Profile of the GPU server, or none.")
@click.option("--prefix", help="Private IPv4 prefix that the networks are taken from.")
@click.option(
    "--file", "target", type=click.Path(path_type=Path), help="Where to write; default inventories/NAME/site.yml."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def new(name: str, defaults: bool, target: Path | None, as_json: bool, **stated: str | int | bool | None) -> None:
    """Write a first, commented, valid site file for the site NAME. Never replaces a file."""
    _label(name, "name")
    path = target or repository() / "inventories" / name / "site.yml"
    if path.exists():
        click.echo(f"{path} exists; nothing was changed. Give another name, or --file.", err=True)
        raise SystemExit(COULD_NOT_RUN)
    answers = _ask(name, stated, quiet=defaults)
    try:
        starter.write(path, starter.text(answers, path))
    except SiteErrors as wrong:
        click.echo(f"These answers make no valid site; nothing was written.\n{wrong}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    except (OSError, ValueError) as wrong:
        click.echo(f"Cannot write {path}: {wrong}", err=True)
        raise SystemExit(COULD_NOT_RUN) from None
    if as_json:
        click.echo(json.dumps({"file": str(path), "site": name}))
    else:
        click.echo(f"Wrote {path}. Next: pinion site check {target or name}, then pinion plan {target or name}")


def _label(written: str, what: str) -> None:
    """Refuse (exit code 2) what is not a DNS label."""
    if not re.fullmatch(DNS_LABEL, written):
        raise click.BadParameter(
            f"'{written}' is no {what}: it must be a DNS label (lower-case letters, digits, hyphens), such as rack-7"
        )


def _ask(name: str, stated: dict[str, str | int | bool | None], *, quiet: bool) -> starter.Answers:
    """The answers: what an option states, else what the person says, else (when *quiet*) the default."""
    default = starter.Answers(name)

    def text(key: str, question: str, otherwise: str, choices: list[str] | None = None) -> str:
        if stated[key] is not None or quiet:
            answer = str(stated[key] if stated[key] is not None else otherwise)
            if choices is not None and answer not in choices:
                raise click.BadParameter(f"'{answer}' for {key} is not one of: {', '.join(choices)}")
            return answer
        kind = click.Choice(choices) if choices is not None else None
        return str(click.prompt(question, default=otherwise, type=kind))

    region = text("region", "Region", default.region)
    _label(region, "region")
    lab = stated["lab"]
    if lab is None:
        lab = (
            True
            if quiet
            else click.confirm("Shall Pinion make the machines itself (a lab, no hardware)?", default=True)
        )
    most = starter.MOST_PIS[bool(lab)]
    pis = stated["pis"]
    if pis is None:
        pis = (
            default.pis
            if quiet
            else click.prompt(f"Raspberry Pis (1 to {most})", default=default.pis, type=click.IntRange(1, most))
        )
    if int(pis) > most:
        raise click.BadParameter(f"the starter has room for {most} Pis; write more into the file by hand")
    board = text("board", "Board", default.board, starter.boards())
    hats = [*starter.hats(board), "none"]
    hat = text("hat", "HAT", str(default.hat) if default.hat in hats else "none", hats)
    profiles = starter.profiles(lab=bool(lab))
    profile = text("profile", "GPU server", profiles[0], [*profiles, "none"])
    prefix = text("prefix", "Private prefix for the networks", default.prefix)
    return starter.Answers(
        name=name,
        region=region,
        lab=bool(lab),
        pis=int(pis),
        board=board,
        hat=None if hat == "none" else hat,
        profile=None if profile == "none" else profile,
        prefix=prefix,
    )


# --- schema and reference -------------------------------------------------------------------------------------------------


@site.command(
    epilog="""\b
Example:
  pinion site schema > site.schema.json
"""
)
@click.option("--json", "as_json", is_flag=True, help="Accepted for uniformity: a schema is JSON.")
def schema(as_json: bool) -> None:  # noqa: ARG001
    """Print the JSON Schema of a site file, for editors."""
    click.echo(json_schema.text(), nl=False)


@site.command(
    epilog="""\b
Examples:
  pinion site reference
  pinion site reference --check
"""
)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 when a page is stale.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reference(only_check: bool, as_json: bool) -> None:
    """Write the pages of docs/reference/ that follow from code: site file, error codes, hardware, schema."""
    root = repository()
    folder, example = root / "docs" / "reference", root / "inventories" / "lab" / "site.yml"
    shown = example.read_text(encoding="utf-8")
    old = stale(folder, shown)
    if not only_check:
        folder.mkdir(parents=True, exist_ok=True)
        for name in old:
            (folder / name).write_text(pages(shown)[name], encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "stale" if only_check else "written": old}))
    else:
        what = "stale" if only_check else "written"
        click.echo(f"{what}: {', '.join(old)}" if old else "every page is up to date")
    raise SystemExit(PROBLEM if only_check and old else FINE)
