"""The consoles that commands draw tables and bars on."""

from __future__ import annotations

import sys

from rich.console import Console

from pinion.cli.screen import GuardedStream, plain


def new_console(*, err: bool = False, moving: bool = False) -> Console:
    """A console on standard output, or on standard error with *err*. *moving*: it draws over its own lines (bars)."""
    stream = sys.stderr if err else sys.stdout
    file = stream.stream if moving and isinstance(stream, GuardedStream) else None
    return Console(file=file, stderr=err, color_system=None if plain() else "auto")


def moves(console: Console) -> bool:
    """Whether lines of *console* can be drawn over."""
    return console.is_terminal and not console.is_dumb_terminal
