"""`pinion image`: the disk images of a site's Pis: build them, start them under emulation, write them to cards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from pinion.cli.arguments import COULD_NOT_RUN, PROBLEM, load_or_exit
from pinion.cli.completing import sites
from pinion.cli.image_told import enrolment_told, node_json, print_trial, trial_code, trial_json
from pinion.cli.token_life import token_life as token_life_option
from pinion.drivers.hosts.inventory import login
from pinion.drivers.identity.place import folder_of
from pinion.image.choice import base_of
from pinion.image.enrolment import LIFE_SECONDS, handed_out
from pinion.image.errors import ImageError
from pinion.image.identity import node_of
from pinion.image.kinds import Kind
from pinion.image.node import Supplied
from pinion.image.node import build as build_node
from pinion.image.store import Store
from pinion.image.trial import try_node
from pinion.image.write import Facts, card, refusals, told, write
from pinion.lab.errors import LabError
from pinion.lab.progress import Progress
from pinion.plan import plan as compile_plan
from pinion.plan.model import DeviceKind, Plan
from pinion.site.find import repository

#: What each command needs beyond Debian's own, and what has it.
_BUILD_TOOLS = ("mmdebstrap", "qemu-aarch64-static", "mcopy", "mkfs.fat", "sfdisk")
_TEST_TOOLS = ("qemu-system-aarch64", "mcopy", "sfdisk")
_PACKAGES = "tools/image-packages.txt"
#: Seconds between two lines of progress of a write.
_SPOKEN = 2.0

P = ParamSpec("P")
R = TypeVar("R")


@click.group()
def image() -> None:
    """Disk images of a site's Pis.

    \b
    Example:
      pinion image build dc-rack-12 --node pi-01 && pinion image test dc-rack-12 --node pi-01
      pinion image write dc-rack-12 --node pi-01 --to /dev/sdX
    """


#: Options that say what a node gets: option, parameter, whether it may be repeated, help.
_FILES = (
    (
        "--admin-key",
        "admin_keys",
        True,
        "Public SSH key that may log in beside the site's administrators; may be repeated. Default: PINION_SSH_KEY's, else our own.",
    ),
    (
        "--user-ca",
        "user_ca",
        False,
        "Public key of an SSH authority whose certificates may log in beside those of the site's own.",
    ),
    (
        "--root-ca",
        "root_ca",
        False,
        "The site's root certificate (PEM), which the node trusts. Default: that of the site's authority on this machine.",
    ),
    (
        "--token",
        "token",
        False,
        "One-time token with which the node asks the site's authority; for one --node. Default: made by the authority on this machine.",
    ),
)


def _supplied(command: Callable[P, R]) -> Callable[P, R]:
    """The options that say what a node gets."""
    command = token_life_option("--token-life", LIFE_SECONDS)(command)
    for option, name, multiple, text in reversed(_FILES):
        path = click.Path(path_type=Path, dir_okay=False, exists=True)
        command = click.option(option, name, multiple=multiple, type=path, metavar="FILE", help=text)(command)
    return command


@image.command(
    epilog="""\b
Examples:
  pinion image build dc-rack-12
  pinion image build dc-rack-12 --node pi-01 --token-life 24h
  pinion image build dc-rack-12 --node pi-01 --root-ca site-ca.crt --token pi-01.token
  pinion image build dc-rack-12 --update        the newest packages, recorded anew
  pinion image build dc-rack-12 --base-archive 2026-06-18-raspios-trixie-arm64-lite.img.xz
"""
)
@click.argument("site", shell_complete=sites)
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Also the image of this node; may be repeated.")
@_supplied
@click.option(
    "--base",
    type=click.Choice([kind.value for kind in Kind]),
    help="What the base is made of, for this site from now on. Default: what was taken before, else Raspberry Pi OS for Pis that run it "
    "where its archive can be had, else Debian.",
)
@click.option(
    "--base-archive",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="The archive of Raspberry Pi OS (.img.xz), fetched elsewhere; refused unless its SHA-256 is the recorded one.",
)
@click.option("--update", is_flag=True, help="Take the newest packages instead of the recorded ones.")
@click.option(
    "--rebuild", is_flag=True, help="Build the base also when it is there: the same inputs give the same digest."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def build(
    site: str,
    nodes: tuple[str, ...],
    admin_keys: tuple[Path, ...],
    user_ca: Path | None,
    root_ca: Path | None,
    token: Path | None,
    token_life: float,
    base: str | None,
    base_archive: Path | None,
    update: bool,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Build the base image that serves all Pis of SITE, and the image of each node that is named."""
    if token is not None and len(nodes) != 1:
        raise click.UsageError("--token is good for one node: name it with --node")
    if base_archive is not None and base == Kind.DEBIAN:
        raise click.UsageError("--base-archive is that of Raspberry Pi OS: leave --base debian away")
    plan = _plan(site, nodes, as_json=as_json)
    supplied = _by_default(plan, Supplied(admin_keys, user_ca, root_ca, token, token_life=token_life))
    _obtain(_BUILD_TOOLS)
    progress = Progress()
    with _Failing():
        store = Store.of(plan.site)
        stated = Kind(base) if base else None
        kind, found = base_of(store, plan, progress.say, stated, archive=base_archive, update=update, rebuild=rebuild)
        made = [build_node(store, plan, found, node, supplied, progress.say) for node in nodes]
    if as_json:
        whole = {
            "base": {"kind": kind, "image": str(found.image), "sha256": found.sha256, "size": found.disk.size},
            "nodes": [node_json(node) for node in made],
        }
        click.echo(json.dumps(whole, indent=2))
        return
    click.echo(f"base   {found.image}\n       sha256 {found.sha256}, {found.contents}")
    public = store.signing_key.with_suffix(".pub")
    click.echo(f"       {found.manifest.name}, {found.bill.name}; each signed: minisign -V -p {public}")
    for node in made:
        click.echo(f"{node.node}  {node.path}\n       sha256 {node.sha256}")
        click.echo(enrolment_told(node))


@image.command(
    epilog="""\b
Examples:
  pinion image test dc-rack-12 --node pi-01
  pinion image test dc-rack-12 --json | jq '.findings[] | select(.outcome != "proved")'
"""
)
@click.argument("site", shell_complete=sites)
@click.option("--node", metavar="NAME", help="Which node's image; default: the first Pi's.")
@_supplied
@click.option(
    "--patience",
    type=click.FloatRange(min=10),
    default=1200.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to the first login.",
)
@click.option("--all", "show_all", is_flag=True, help="List proved claims too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(
    site: str,
    node: str | None,
    admin_keys: tuple[Path, ...],
    user_ca: Path | None,
    root_ca: Path | None,
    token: Path | None,
    token_life: float,
    patience: float,
    show_all: bool,
    as_json: bool,
) -> None:
    """Start a node's image under emulation, log in, and prove what must hold before the first converge.

    The image is built when it is not there. Exits with 1 when a claim fails.
    """
    plan = _plan(site, (node,) if node else (), as_json=as_json)
    chosen = node or _first_pi(plan)
    supplied = _by_default(plan, Supplied(admin_keys, user_ca, root_ca, token, token_life=token_life))
    _obtain((*_BUILD_TOOLS, *_TEST_TOOLS))
    with _Failing():
        store, say = Store.of(plan.site), Progress().say
        trial = try_node(
            store, plan, base_of(store, plan, say)[1], chosen, supplied, login().key, say, patience=patience
        )
    if as_json:
        click.echo(json.dumps(trial_json(trial), indent=2))
    else:
        print_trial(trial, show_all=show_all)
    raise SystemExit(trial_code(trial.findings))


@image.command(
    "write",
    epilog="""\b
Examples:
  pinion image write dc-rack-12 --node pi-01 --to /dev/sdX
  pinion image write dc-rack-12 --node pi-01 --to /dev/sdX --yes 0123456789AB     its serial number
""",
)
@click.argument("site", shell_complete=sites)
@click.option("--node", required=True, metavar="NAME", help="Whose image.")
@click.option(
    "--to",
    "device",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DEVICE",
    help="The whole card, such as /dev/sdX.",
)
@_supplied
@click.option("--yes", metavar="SERIAL", help="Do not ask: the device's serial number, or its name where it has none.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def write_(
    site: str,
    node: str,
    device: Path,
    admin_keys: tuple[Path, ...],
    user_ca: Path | None,
    root_ca: Path | None,
    token: Path | None,
    token_life: float,
    yes: str | None,
    as_json: bool,
) -> None:
    """Write a node's image to a card, after showing what the card is and asking, and prove it by reading back.

    Refuses a mounted or system disk, a partition, a read-only or too small device.
    """
    plan = _plan(site, (node,), as_json=as_json)
    supplied = _by_default(plan, Supplied(admin_keys, user_ca, root_ca, token, token_life=token_life))
    progress = Progress()
    with _Failing():
        target = card(device)
        facts = target.facts()
        click.echo("\n".join(told(facts)), err=True)
        # before anything is built: most refusals need no image
        _refuse(facts, refusals(facts, 0))
        _obtain(_BUILD_TOOLS)
        store = Store.of(plan.site)
        made = build_node(store, plan, base_of(store, plan, progress.say)[1], node, supplied, progress.say)
        _refuse(facts, refusals(facts, made.size))
        _agree(facts, node, yes)
        # it works once: from here on it is this card's
        handed_out(store, node)
        started = time.monotonic()
        write(made.path, made.sha256, target, facts, _speaking(progress, node))
    seconds = time.monotonic() - started
    if as_json:
        click.echo(
            json.dumps(
                {"device": asdict(facts), "node": node_json(made), "verified": True, "seconds": round(seconds, 1)},
                indent=2,
            )
        )
    else:
        click.echo(
            f"{node} is on {facts.path}: {made.size} bytes written and read back in {seconds:.0f} s, sha256 {made.sha256}"
        )
        click.echo(enrolment_told(made))


# --- parts ------------------------------------------------------------------------------------------------------------


class _Failing:
    """Turns what images and the lab raise into one line and exit code 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        del kind, trace
        if isinstance(error, ImageError | LabError):
            click.echo(f"Error: {error}", err=True)
            raise SystemExit(COULD_NOT_RUN) from None


def _plan(site: str, nodes: tuple[str, ...], *, as_json: bool) -> Plan:
    plan = compile_plan(load_or_exit(site, as_json=as_json)[1])
    with _Failing():
        for node in nodes:
            node_of(plan, node)
    return plan


def _first_pi(plan: Plan) -> str:
    for device in plan.devices:
        if device.kind is DeviceKind.PI and not device.leaving:
            return device.name
    raise click.BadParameter(f"{plan.site} has no Pis, and images are for Pis", param_hint="SITE")


def _by_default(plan: Plan, supplied: Supplied) -> Supplied:
    """The operator's own key where none was named, and where this machine keeps the site's authority."""
    supplied = replace(supplied, authority=folder_of(plan.site, os.environ))
    key = login().key
    if supplied.admin_keys or key is None or not Path(f"{key}.pub").exists():
        return supplied
    return replace(supplied, admin_keys=(Path(f"{key}.pub"),))


def _obtain(programs: tuple[str, ...]) -> None:
    """Have the programs; those that are missing are installed once, as Debian packages."""
    if all(shutil.which(program) for program in programs):
        return
    click.echo(f"installs the Debian packages of {_PACKAGES}, once", err=True)
    root = repository()
    argv = [sys.executable, str(root / "tools/obtain.py"), "debian", "--packages", str(root / _PACKAGES)]
    if subprocess.run(argv, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(COULD_NOT_RUN)


def _refuse(facts: Facts, reasons: list[str]) -> None:
    if reasons:
        click.echo("\n".join(f"refused: {facts.path}: {reason}" for reason in reasons), err=True)
        raise SystemExit(PROBLEM)


def _agree(facts: Facts, node: str, yes: str | None) -> None:
    """Have a person's word that this device is meant."""
    if yes is None:
        if not sys.stdin.isatty():
            click.echo(f"nobody to ask: say --yes '{facts.name}' to overwrite {facts.path}", err=True)
            raise SystemExit(COULD_NOT_RUN)
        yes = click.prompt(
            f"everything on it will be lost; type {facts.name} to write {node} to it",
            default="",
            show_default=False,
            err=True,
        )
    if yes.strip() != facts.name:
        click.echo(f"not written: '{yes.strip()}' is not the serial number of {facts.path} ({facts.name})", err=True)
        raise SystemExit(PROBLEM)


def _speaking(progress: Progress, node: str) -> Callable[[str, int, int], None]:
    """Progress of a write: a line every few seconds."""
    spoken = {"writes": 0.0, "reads back": 0.0}
    started: dict[str, float] = {}

    def heard(what: str, done: int, whole: int) -> None:
        now = time.monotonic()
        started.setdefault(what, now)
        if now - spoken.get(what, 0.0) < _SPOKEN and done < whole:
            return
        spoken[what] = now
        rate = done / max(now - started[what], 0.001) / 1e6
        progress.say(node, f"{what} {100 * done // whole} %, {rate:.0f} MB/s")

    return heard
