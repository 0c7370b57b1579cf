"""`pinion completion`: what a shell reads so that it completes commands, options, sites, hosts and codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from pinion.cli.arguments import CannotRunError
from pinion.cli.completing import SHELLS, script


@click.command(
    epilog="""\b
Examples:
  source <(pinion completion bash)                                 in ~/.bashrc
  source <(pinion completion zsh)                                  in ~/.zshrc, after compinit
  pinion completion fish > ~/.config/fish/completions/pinion.fish
"""
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def completion(context: click.Context, shell: str | None, as_json: bool) -> None:
    """Print what SHELL reads so that the Tab key completes `pinion`; without SHELL, for the shell that $SHELL names."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise CannotRunError(f"$SHELL names none of {', '.join(SHELLS)}; say which: pinion completion bash")
    text = script(context.find_root().command, name)
    click.echo(json.dumps({"shell": name, "script": text}) if as_json else text)
