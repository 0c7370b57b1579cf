"""`pinion identity`: the authority of a site on the operator's machine; tokens for hosts, and revocation."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from pinion.bringup.authority_host import fetch_database, place_database
from pinion.bringup.host_shell import HostRefusedError, UnreachedError
from pinion.bringup.refusing import another_token_key, await_key, refuse, telling
from pinion.cli.arguments import COULD_NOT_RUN, FINE, PROBLEM, host_of, load_or_exit
from pinion.cli.completing import hosts, sites
from pinion.cli.token_life import token_life
from pinion.drivers.hosts.inventory import login
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.backup import collect, keep, put_back, read
from pinion.drivers.identity.issuers import issuer
from pinion.drivers.identity.place import AuthorityError, folder_of
from pinion.drivers.identity.revoking import revoke as revoke_serial
from pinion.drivers.identity.sealing import SHORTEST, passphrase_in
from pinion.drivers.identity.tokens import ENROLMENT_SECONDS, enrolment
from pinion.plan import Plan, identity
from pinion.plan import plan as compile_plan
from pinion.plan.model import AuthorityPlan
from pinion.site.find import repository

#: What seals a backup.
PASSPHRASE = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help=f"A file (0600, or a pipe) with the passphrase that opens FILE: {SHORTEST} characters at least.",
)


@click.group("identity", context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """The site's certificate authority as this machine keeps it: make it, hand out tokens, revoke.

    It lies in the folder that PINION_AUTHORITY names (one folder a site in it), else in ~/.local/share/pinion/authority. Keep a copy.
    """


@commands.command(epilog="\b\nExample:\n  pinion identity init dc-rack-12")
@click.argument("site", shell_complete=sites)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def init(site: str, as_json: bool) -> None:
    """Make the authority of SITE: root, intermediate, and the key that signs tokens. What is there already is kept.

    Run it again when the site's domain or networks have changed, or when the intermediate nears its end. The root's key is needed for that
    only: move root.key to a safe place until then.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    stated = _stated(compile_plan(loaded))
    authority = Authority(folder_of(loaded.site, os.environ))
    try:
        made = authority.make(loaded.site, stated.domain, stated.networks)
        fingerprint = authority.fingerprint
    except (AuthorityError, OSError, ValueError) as error:
        raise _could_not(error) from error
    if as_json:
        click.echo(json.dumps({"folder": str(authority.folder), "fingerprint": fingerprint, "made": made}))
    else:
        click.echo(f"{'made' if made else 'is there'}: {authority.folder}\nroot's fingerprint: {fingerprint}")
    raise SystemExit(FINE)


@commands.command(epilog="\b\nExample:\n  pinion identity token dc-rack-12 pi-03 >pi-03.token")
@click.argument("site", shell_complete=sites)
@click.argument("node", shell_complete=hosts)
@token_life("--life", ENROLMENT_SECONDS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def token(site: str, node: str, token_life: float, as_json: bool) -> None:
    """Print a token with which NODE of SITE gets one certificate. A secret: send it to a file of mode 0600.

    `pinion converge` hands tokens to hosts by itself, and `pinion image build` puts them into images; this is for a host that neither
    reaches from here.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    host_of(plan, node)
    names = identity.names(loaded, plan.device(node), plan.vlans)
    authority = Authority(folder_of(loaded.site, os.environ))
    try:
        signer = issuer(authority, identity.issuer(loaded, node))
        made = enrolment(authority, _stated(plan).url, names, int(token_life), issuer=signer)
        root = authority.fingerprint
    except AuthorityError as error:
        raise _could_not(error) from error
    if as_json:
        said = {"node": node, "names": names, "token": made, "seconds": int(token_life), "fingerprint": root}
        click.echo(json.dumps(said))
    else:
        if sys.stdout.isatty():
            click.echo("a secret on a screen; better: >file", err=True)
        click.echo(made)
    raise SystemExit(FINE)


@commands.command(epilog="\b\nExample:\n  pinion identity revoke dc-rack-12 pi-03 --reason 'copied'")
@click.argument("site", shell_complete=sites)
@click.argument("node", shell_complete=hosts)
@click.option("--serial", metavar="HEX", help="Have this one certificate's serial number revoked as well.")
@click.option(
    "--reason", default="revoked by the operator", show_default=True, help="Kept by the authority, with --serial."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def revoke(site: str, node: str, serial: str | None, reason: str, as_json: bool) -> None:
    """Have SITE's authority renew nothing that NODE, or who copied it, has; by name, whatever the serial numbers are.

    The authority's host is converged for that (its concern site_ca). What was given out stays good until it ends by itself, at most one
    lifetime from now: revocation is passive. A host that is in the site file gets another certificate with the next `pinion converge`;
    `pinion decommission` sees a node out as a whole. NODE may be gone from the site file. Of an authority that is run elsewhere only a
    --serial can be revoked from here. Safe to kill and to run again.
    """
    path, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    stated = _stated(plan)
    authority = Authority(folder_of(loaded.site, os.environ))
    number = _number(serial)
    if stated.host is None and number is None:
        click.echo(f"{stated.url} is run elsewhere: have it refuse {node} by name there, or give --serial", err=True)
        raise SystemExit(PROBLEM)
    new = None
    try:
        done = refuse(authority, stated, identity.subject(loaded, node), telling(repository(), path))
        if number is not None:
            new = revoke_serial(authority, stated.url, number, reason)
    except (AuthorityError, OSError) as error:
        raise _could_not(error) from error
    if as_json:
        said: dict[str, object] = {"node": node}
        if done is not None:
            said |= {"refused": _at(done.at), "worthless_by": _at(done.ends)}
        if number is not None:
            said |= {"serial": f"{number:X}", "new": new}
        click.echo(json.dumps(said))
    else:
        if done is not None:
            click.echo(
                f"{node}: nothing that it has now is renewed any more; all of it is over by {done.ends:%Y-%m-%d %H:%M} UTC"
            )
        if number is not None:
            click.echo(f"{node}: certificate {number:X} {'is not renewed any more' if new else 'was revoked before'}")
    raise SystemExit(FINE)


@commands.command(
    epilog="\b\nExample:\n  pinion identity backup dc-rack-12 /safe/dc-rack-12.authority --passphrase-file /other/passphrase"
)
@click.argument("site", shell_complete=sites)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@PASSPHRASE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(site: str, file: Path, passphrase_file: Path, as_json: bool) -> None:
    """Keep SITE's authority in FILE: this machine's folder with its keys, and step-ca's database from the authority's host.

    Only the passphrase opens FILE, which is 0600 all the same and refused in a git work tree. Keep the passphrase elsewhere: without it
    the backup is worth nothing, and who has both can be every host. step-ca is stopped for the moment of the copy. Safe to kill and to run
    again: FILE is replaced whole.
    """
    _, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    authority = Authority(folder_of(loaded.site, os.environ))
    at = datetime.now(UTC)
    try:
        passphrase = passphrase_in(passphrase_file)
        host = host_of(plan, _own_host(plan))
        kept = collect(authority, loaded.site, fetch_database(host, login()), at)
        keep(kept, file, passphrase)
    except (AuthorityError, HostRefusedError, UnreachedError, OSError) as error:
        raise _could_not(error) from error
    if as_json:
        click.echo(
            json.dumps({"site": loaded.site, "file": str(file), "at": _at(at), "database_bytes": len(kept.database)})
        )
    else:
        click.echo(
            f"kept: {file}, {len(kept.files)} files and step-ca's database ({len(kept.database)} bytes). Only the passphrase opens it"
        )
    raise SystemExit(FINE)


@commands.command(
    epilog="\b\nExample:\n  pinion identity restore dc-rack-12 /safe/dc-rack-12.authority --passphrase-file /other/passphrase"
)
@click.argument("site", shell_complete=sites)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@PASSPHRASE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def restore(site: str, file: Path, passphrase_file: Path, as_json: bool) -> None:
    """Put SITE's authority back from FILE: this machine's folder where it is gone, and step-ca's database on the authority's host.

    Who left since the backup stays refused, for that is in step-ca's configuration. What only the database knew, which tokens were used
    since, counts no more: there is another key for tokens, so each token that was handed out before is worthless, those in images too.
    Where the folder was gone, each host is enrolled anew by the next `pinion converge`. The host keeps its former database beside the new
    one. Safe to kill and to run again.
    """
    path, loaded = load_or_exit(site, as_json=as_json)
    plan = compile_plan(loaded)
    stated = _stated(plan)
    authority = Authority(folder_of(loaded.site, os.environ))
    try:
        host = host_of(plan, _own_host(plan))
        found = read(file, loaded.site, passphrase_in(passphrase_file))
        anew = put_back(authority, found)
        another_token_key(authority, stated, telling(repository(), path))
        place_database(host, login(), found.database)
        await_key(authority, stated.url)
    except (AuthorityError, HostRefusedError, UnreachedError, OSError) as error:
        raise _could_not(error) from error
    if as_json:
        click.echo(json.dumps({"site": loaded.site, "from": _at(found.at), "enrol_anew": anew}))
    else:
        click.echo(
            f"{loaded.site}'s authority is as of {found.at:%Y-%m-%d %H:%M} UTC, with another key for tokens: make images anew that were "
            "not started yet"
        )
        click.echo(
            f"single numbers that were revoked since (--serial) are to be revoked again; now: pinion converge {site}"
        )
        if anew:
            click.echo(
                "this machine's folder was gone: each host gets another certificate with that run, and renews nothing before"
            )
    raise SystemExit(FINE)


def _own_host(plan: Plan) -> str:
    """The host that runs the authority. Raises `SystemExit` for a site without one."""
    stated = _stated(plan)
    if stated.host is None:
        click.echo(f"{stated.url} is run elsewhere, and so is its backup", err=True)
        raise SystemExit(PROBLEM)
    return stated.host


def _number(serial: str | None) -> int | None:
    try:
        return None if serial is None else int(serial, 16)
    except ValueError as error:
        raise click.BadParameter(
            f"'{serial}' is not a hexadecimal number; `identity status` on the host prints it", param_hint="--serial"
        ) from error


def _at(time: datetime) -> str:
    return time.isoformat(timespec="seconds")


def _stated(plan: Plan) -> AuthorityPlan:
    if plan.authority is None:
        click.echo(f"{plan.site} has no authority: state concerns.site_ca or concerns.identity.authority", err=True)
        raise SystemExit(PROBLEM)
    return plan.authority


def _could_not(error: Exception) -> SystemExit:
    click.echo(str(error), err=True)
    return SystemExit(COULD_NOT_RUN)
