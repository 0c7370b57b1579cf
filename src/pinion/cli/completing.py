"""Completion of words in a shell: which sites, hosts, concerns and codes there are. What cannot be told completes to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

from pinion.site.find import repository, site_file

#: The variable by which a shell's script asks this program (click's convention for a command called `pinion`).
VARIABLE = "_PINION_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def asked() -> bool:
    """Whether a shell asks for completion, or for its script, in place of running a command."""
    return VARIABLE in os.environ


def script(group: click.Command, shell: str) -> str:
    """What *shell* (one of `SHELLS`) reads once so that it completes the words of *group*."""
    made = get_completion_class(shell)
    if made is None:
        raise ValueError(f"no completion for {shell}")
    return made(group, {}, "pinion", VARIABLE).source()


def sites(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Names of the sites below `inventories/`; files where no name begins so."""
    with suppress(OSError):  # the working folder is gone
        names = [path.parent.name for path in (repository() / "inventories").glob("*/site.yml")]
        return _beginning(incomplete, names) or [CompletionItem(incomplete, type="file")]
    return []


def hosts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Names of the hosts of the site that stands before this word."""
    return _beginning(incomplete, _of_site(context))


def codes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Error codes of a site file, each with its title."""
    from pinion.site.errors import catalogue  # reads a file that only this needs

    return [
        CompletionItem(kind.code, help=kind.title)
        for kind in catalogue().values()
        if kind.code.startswith(incomplete.upper())
    ]


def _of_site(context: click.Context) -> Iterable[str]:
    from pinion.plan import plan  # a third of a second, which only hosts need
    from pinion.site.loader import SiteErrors, load

    with suppress(OSError, SiteErrors):
        return [host.name for host in plan(load(site_file(str(context.params.get("site"))))).hosts]
    return ()


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
