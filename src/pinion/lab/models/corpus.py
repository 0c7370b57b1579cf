"""The text that the model is trained on: Pinion's own documentation and docstrings, one paragraph a line, pinned in `corpus.txt`.

It is English that we wrote, so that nobody else's licence hangs on the model, and it is a language and not a grammar: a model of it has
something to learn. It is pinned so that the model's bytes change when somebody decides so, and not with every sentence of the docs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

#: Shorter paragraphs are headings and labels.
_SHORTEST = 40
#: Every tenth paragraph is kept from training.
_HELD_OUT = 10


@dataclass(frozen=True)
class Corpus:
    """The text to learn from, and the text to be judged by. Paragraphs are lines; no paragraph stands in both."""

    training: str
    held_out: str


def corpus_text() -> str:
    """The pinned text."""
    return (resources.files("pinion.lab.models") / "corpus.txt").read_text(encoding="utf-8")


def corpus() -> Corpus:
    """The pinned text, divided."""
    lines = corpus_text().splitlines(keepends=True)
    held = [line for at, line in enumerate(lines) if at % _HELD_OUT == _HELD_OUT - 1]
    kept = [line for at, line in enumerate(lines) if at % _HELD_OUT != _HELD_OUT - 1]
    return Corpus("".join(kept), "".join(held))


def collect(repository: Path) -> str:
    """What `corpus.txt` would be if it were pinned today: every paragraph of *repository*'s docs and docstrings once."""
    found: dict[str, None] = {}
    docs = repository / "docs"
    pages = [repository / "README.md"]
    pages += (page for folder in (docs, docs / "concerns", docs / "decisions") for page in sorted(folder.glob("*.md")))
    for page in pages:
        found.update(dict.fromkeys(_paragraphs(_prose(page.read_text(encoding="utf-8")))))
    for folder in ("src/pinion", "tools", "tests"):
        for program in sorted((repository / folder).rglob("*.py")):
            for text in _docstrings(program):
                found.update(dict.fromkeys(_paragraphs(text)))
    return "".join(f"{paragraph}\n" for paragraph in found)


def _prose(page: str) -> str:
    """A page without its code, each row of a table and each point of a list a paragraph."""
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    rows = (
        f"\n{line.strip('| ').replace(' | ', ': ')}\n" if line.startswith("|") else line for line in page.splitlines()
    )
    page = re.sub(r"^(\s*[-*]|\s*\d+\.) ", "\n\n", "\n".join(rows), flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page)


def _docstrings(program: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        line = " ".join(paragraph.split())
        if len(line) >= _SHORTEST and line.isascii() and not line.startswith(("|", "#", "```")):
            yield line
