"""Plan to text: switch configuration, files and diagrams. No I/O but the reading of templates, and no decision: those are the plan's."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

#: The templates of the repository, by target (``switch/eos/…``).
TEMPLATES = Path(__file__).parents[3] / "templates"


@cache
def templates() -> Environment:
    """The Jinja2 environment of all templates: text, not HTML; an unknown variable is an error; block lines leave no blank lines."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
