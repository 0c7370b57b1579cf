"""A group of commands whose modules are imported when they are asked for, so that help and light commands answer at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import ClassVar

import click

#: Command name to the module and attribute that implement it, and its one-line help (so that listing imports nothing).
Commands = Mapping[str, tuple[str, str, str]]


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for; *table* has all of them."""

    table: ClassVar[Commands] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.table:
            return None
        module, attribute, _ = self.table[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{attribute} is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in self.table.items()])
