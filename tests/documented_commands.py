"""The commands that README and the pages of `docs` show: every ``console`` or ``sh`` fence, and the mark before it that says who runs it.

A mark is a comment of HTML, so that a reader of the page does not see it:

* ``<!-- run: alone -->`` a test runs the commands in a folder of its own, with no rack (`tests/unit/docs`);
* ``<!-- run: machine -->`` a test runs them in the repository, on a machine without this rack (`tests/lab/test_readme_order.py`);
* ``<!-- run: rack -->`` a test runs them at the operator's place of a rack, which is what `make shell` gives (`tests/scenarios`);
* ``<!-- example: REASON -->`` nobody runs this fence, for that reason; ``<!-- examples: REASON -->`` the same for all fences of the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\s*$")
_MARK = re.compile(r"^ *<!-- (?P<kind>run|examples?): (?P<text>.*\S) -->\s*$")
_LANGUAGES = frozenset({"bash", "console", "sh", "shell"})
#: Where commands can be run.
PLACES = frozenset({"alone", "machine", "rack"})


@dataclass(frozen=True, slots=True)
class Fence:
    """One block of commands. *line* is that of its opening in *page*; *place* is where a test runs it, else None.

    *reason* is why nobody does; a fence with neither was forgotten.
    """

    page: str
    line: int
    commands: tuple[str, ...]
    place: str | None
    reason: str

    @property
    def name(self) -> str:
        """For the names of tests."""
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README, CONTRIBUTING and everything below `docs`."""
    return [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def fences() -> list[Fence]:
    """All of them, in the order shown."""
    return [fence for page in pages() for fence in fences_of(page.relative_to(REPOSITORY).as_posix(), page.read_text())]


def fences_of(page: str, text: str) -> list[Fence]:
    """The fences of one page's *text*, in the order shown."""
    lines = text.splitlines()
    marks = [_MARK.match(line) for line in lines]
    of_page = next((mark["text"] for mark in marks if mark and mark["kind"] == "examples"), "")
    found: list[Fence] = []
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        edge = _FENCE.match(line)
        if edge is None:
            continue
        if opened is None:
            opened = (number, edge["language"])
            continue
        (start, language), opened = opened, None
        if language in _LANGUAGES:
            above = next((marks[at] for at in range(start - 1, -1, -1) if lines[at].strip()), None)
            place, reason = _read(above, of_page)
            found.append(Fence(page, start + 1, commands(lines[start + 1 : number]), place, reason))
    return found


def _read(mark: re.Match[str] | None, of_page: str) -> tuple[str | None, str]:
    """Place and reason of the fence below *mark*, on a page that gives the reason *of_page* for all of its fences."""
    if mark and mark["kind"] == "run" and mark["text"] in PLACES:
        return mark["text"], ""
    if mark and mark["kind"] == "example":
        return None, mark["text"]
    return None, of_page


def commands(lines: list[str]) -> tuple[str, ...]:
    """The commands of a fence: prompts and lines that are only a comment left out, continued lines joined."""
    joined = "\n".join(line.strip() for line in lines).replace("\\\n", " ").splitlines()
    prompted = any(line.startswith("$ ") for line in joined)
    shown = [line.removeprefix("$ ") for line in joined if not prompted or line.startswith("$ ")]
    return tuple(line for line in shown if line and not line.startswith("#"))
