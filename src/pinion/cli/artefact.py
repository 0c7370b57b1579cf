"""`pinion artefact`: a key that signs, and what the site file says of a model's file."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import NoReturn

import click
import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from pinion.services.node_programs import model_format
from pinion.services.node_programs.model_store import Model, digest_of

_COULD_NOT = 2


@click.group(
    epilog="""\b
Example:
  pinion artefact key signing.pem
  pinion artefact sign assistant.gguf --key signing.pem --name assistant-1b --url https://models.example.org/assistant.gguf
"""
)
def artefact() -> None:
    """Sign models for the nodes of a site."""


@artefact.command(epilog="\b\nExample:\n  pinion artefact key signing.pem")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def key(file: Path, as_json: bool) -> None:
    """Make a key that signs, in FILE (0600), and print the public half for the site file. A FILE that exists is read, never replaced."""
    if not file.exists():
        made = Ed25519PrivateKey.generate()
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            _give_up(f"{file}: {error.strerror}")
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = _public(_load(file))
    click.echo(json.dumps({"key": public}) if as_json else f"concerns:\n  model_store: {{key: {public}}}")


@artefact.command(
    epilog="""\b
Example:
  pinion artefact sign assistant.gguf --key signing.pem --name assistant-1b --url https://models.example.org/assistant.gguf
"""
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(path_type=Path),
    help="The key, as `pinion artefact key` made it.",
)
@click.option("--name", required=True, help="The artefact's name.")
@click.option("--url", required=True, help="Where nodes fetch it.")
@click.option("--format", "form", type=click.Choice(["gguf", "onnx"]), default="gguf", show_default=True)
@click.option("--architecture", default="llama", show_default=True, help="What a GGUF file is for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sign(file: Path, key_file: Path, name: str, url: str, form: str, architecture: str, as_json: bool) -> None:
    """Check FILE, sign it, and print what the site file says of it."""
    try:
        model_format.check(file, form, architecture)
    except model_format.RefusedError as error:
        click.echo(f"artefact: {file}: {error}", err=True)
        raise SystemExit(1) from error
    stated = Model(name, name, url, digest_of(file), file.stat().st_size, "", form, architecture, ())
    signature = base64.b64encode(_load(key_file).sign(stated.statement())).decode()
    source = {"url": url, "sha256": stated.sha256, "size": stated.size, "format": form, "architecture": architecture}
    entry = {"artefact": name, "source": source | {"signature": signature}}
    click.echo(json.dumps(entry, indent=1) if as_json else yaml.safe_dump({"edge": entry}, sort_keys=False).rstrip())


def _load(file: Path) -> Ed25519PrivateKey:
    try:
        found = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        _give_up(f"{file}: {getattr(error, 'strerror', None) or error}")
    if not isinstance(found, Ed25519PrivateKey):
        _give_up(f"{file} is no Ed25519 key")
    return found


def _public(private: Ed25519PrivateKey) -> str:
    return base64.b64encode(private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def _give_up(why: str) -> NoReturn:
    click.echo(f"artefact: {why}", err=True)
    raise SystemExit(_COULD_NOT)
