"""Every command that a page shows is run by a test, or the page says why not; those that need no rack are run here, in the order shown."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from documented_commands import Fence, fences, fences_of
from unit.services.test_model_store import gguf

REPOSITORY = Path(__file__).parents[3]
PAGES = sorted({fence.page for fence in fences() if fence.place == "alone"})


def forgotten(found: list[Fence]) -> list[str]:
    """Fences that say neither who runs them nor why nobody does, and what to write."""
    return [
        f"{fence.name}: write above it <!-- run: alone -->, <!-- run: rack -->, <!-- run: machine --> or <!-- example: the reason -->"
        for fence in found
        if not (fence.place or fence.reason)
    ]


def test_every_fence_is_run_or_says_why_not() -> None:
    found = fences()
    assert {fence.page for fence in found} >= {"README.md", "docs/hosts.md", "docs/real-site.md"}
    assert forgotten(found) == []
    for fence in found:
        assert fence.commands or fence.place is None, f"{fence.name}: a fence that is run has commands"
        assert fence.place or len(fence.reason.split()) >= 4, f"{fence.name}: the reason is said in words"


@pytest.mark.parametrize("page", PAGES)
def test_what_needs_no_rack_works_as_shown(page: str, tmp_path: Path) -> None:
    (tmp_path / "assistant.gguf").write_bytes(gguf())
    path = f"{REPOSITORY / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    for fence in fences():
        for command in fence.commands if (fence.page, fence.place) == (page, "alone") else ():
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            assert done.returncode == 0, f"{fence.name}: {command}\n{done.stdout}{done.stderr}"


def test_a_fence_that_says_nothing_is_named_with_its_line() -> None:
    text = "one\n\n```console\n$ pinion verify lab\n```\n\n<!-- run: moon -->\n```sh\npinion up\n```\n"
    assert [line.partition(": ")[0] for line in forgotten(fences_of("p.md", text))] == ["p.md:3", "p.md:8"]


def test_marks_prompts_and_continued_lines() -> None:
    text = (
        "<!-- run: alone -->\n\n```console\n$ a \\\n  --b  # why\nwhat it answers\n$ c\n```\n"
        "```yaml\n$ no\n```\n<!-- example: the disk is yours -->\n   ```sh\n   # first\n   d 'e'\n   ```\n"
    )
    assert fences_of("p.md", text) == [
        Fence("p.md", 3, ("a  --b  # why", "c"), "alone", ""),
        Fence("p.md", 13, ("d 'e'",), None, "the disk is yours"),
    ]


def test_a_mark_of_a_page_holds_for_its_fences_and_a_mark_before_one_goes_first() -> None:
    text = "<!-- examples: they make real cards -->\n```sh\na\n```\n<!-- run: alone -->\n```sh\nb\n```\n"
    assert [(fence.place, fence.reason) for fence in fences_of("p.md", text)] == [
        (None, "they make real cards"),
        ("alone", ""),
    ]
