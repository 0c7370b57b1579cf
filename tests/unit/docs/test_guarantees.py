"""Each promise of docs/guarantees.md names the test that holds it, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs/guarantees.md"
_TEST = re.compile(r"\b(test_\w+)`")
_FILE = re.compile(r"\btests/[\w/]+\.py\b")
#: What stands below it is no promise.
_END = "Not promised:"


@cache
def known() -> frozenset[str]:
    """The names of all tests."""
    trees = (ast.parse(path.read_text()) for path in (REPOSITORY / "tests").rglob("*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def promises(text: str) -> list[str]:
    """The rows of the page's table and its paragraphs, as far as they promise something; its title and introduction do not."""
    promised = text.partition(_END)[0]
    blocks = [block.strip() for block in promised.split("\n\n")]
    rows = [row for block in blocks if block.startswith("|") for row in block.splitlines()[2:]]
    introduction = 2
    return [*rows, *(block for block in blocks[introduction:] if block and not block.startswith("|"))]


def faults(text: str) -> list[str]:
    """What is wrong with the page *text*."""
    bare = [f"no test holds: {promise[:80]}" for promise in promises(text) if not _TEST.search(promise)]
    gone = [f"there is no {name}" for name in dict.fromkeys(_TEST.findall(text)) if name not in known()]
    return [*bare, *gone, *(f"there is no {name}" for name in _FILE.findall(text) if not (REPOSITORY / name).exists())]


def test_each_promise_names_a_test_and_each_named_test_is_there() -> None:
    text = PAGE.read_text()
    assert _END in text
    assert len(promises(text)) > 20
    assert faults(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("| a kill | goes on | |\n", "no test holds: | a kill"),
        ("\nAll is kept.\n", "no test holds: All is kept."),
        ("\nAll is kept.\nHeld by `test_of_nothing`.\n", "there is no test_of_nothing"),
        (
            "\nKept: tests/none.py. Held by `test_each_promise_names_a_test_and_each_named_test_is_there`.\n",
            "there is no tests/none.py",
        ),
    ],
)
def test_a_promise_without_a_test_is_found(text: str, told: str) -> None:
    page = f"# What is promised\n\nBeside each stands a test.\n\n| dies | then | held by |\n|---|---|---|\n{text}\n{_END}\n- this\n"
    (found,) = faults(page)
    assert found.startswith(told)
