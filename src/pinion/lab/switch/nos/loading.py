"""Saved text back to a configuration: every line goes through the same commands that a person types."""

from __future__ import annotations

from . import access_commands, config_commands, interface_commands, qos_commands  # noqa: F401 - importing them fills the grammars
from .config import Config
from .editor import Editor
from .grammar import CliError, recognise


def load(text: str, base: Config) -> tuple[Config, list[str]]:
    """*base* changed by all lines of *text*, as saved by `pinion.lab.switch.nos.text.render`; and what was refused, with the line."""
    editor = Editor(base)
    refused = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("!") or line.strip() == "end":
            continue
        if not line.startswith(" "):
            while editor.leave():
                pass
        try:
            found = recognise(editor.grammars, line)
            found.handler(editor, *found.values)
        except CliError as error:
            refused.append(f"{line.strip()}: {error}")
    return editor.config, refused
