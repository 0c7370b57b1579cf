"""Every code of the error catalogue has a folder here: a bad site file and the exact text that it must give.

A folder is called after the code that it must give, and nothing else may be wrong with its site: a code that comes along is an error of
the test. Where one mistake cannot be made without another, the folder says so in `also.txt`, one code a line, with the reason.

To write the expected texts anew after a change of words: ``PINION_WRITE_EXPECTED=1 pytest tests/errors``, then read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from site_fixes import refusals

from pinion.site.errors import catalogue
from pinion.site.loader import Problem, charts_folder, check, read

FOLDER = Path(__file__).parent
#: The two other folders are no cases: the charts that cases may name, and compiled Python.
CASES = sorted({path.name for path in FOLDER.iterdir() if path.is_dir()} - {"charts", "__pycache__"})
#: Kinds of problem whose fix has no text. A new one that could have one and has none makes this too small.
MUST_BE_CHOSEN = 91
CODE = re.compile(r"^[A-Z0-9]+-[0-9]{3}")


def _problems(case: str, scratch: Path) -> tuple[Problem, ...]:
    """The problems of a case. A file that is too large to keep is written from `repeat.txt`: a number, then the text to repeat."""
    path = FOLDER / case / "site.yml"
    recipe = FOLDER / case / "repeat.txt"
    if recipe.exists():
        times, text = recipe.read_text(encoding="utf-8").split("\n", 1)
        path = scratch / "site.yml"
        path.write_text(text * int(times), encoding="utf-8")
    site, problems = check(path)
    assert site is None, "a site with mistakes was handed out"
    return tuple(problems)


def _content(case: str, scratch: Path) -> str:
    """The text of a case's file, as its problems count lines and columns; empty where it has none."""
    written = [path for path in (FOLDER / case / "site.yml", scratch / "site.yml") if path.is_file()]
    try:
        return written[0].read_bytes().decode("utf-8-sig") if written else ""
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("case", CASES)
def test_each_fix_is_text_that_is_accepted_or_says_why_it_is_none(case: str, tmp_path: Path) -> None:
    file = FOLDER / case / "site.yml"
    problems = _problems(case, tmp_path)
    wrong = refusals(
        _content(case, tmp_path),
        problems,
        lambda text: read(text.encode(), str(file), charts=charts_folder(file))[1],
    )
    assert not list(wrong)


def test_most_kinds_of_problem_have_a_fix_that_can_be_put_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person must choose where the file does not hold what the choice needs; those kinds are few, and are shown."""
    told = [problem for case in CASES for problem in _problems(case, tmp_path)]
    mended = {problem.code for problem in told if problem.replacement is not None}
    chosen = {
        problem.code: problem.choice for problem in told if problem.replacement is None and problem.code not in mended
    }
    with capsys.disabled():
        print(f"\n{len(mended)} kinds of problem have a fix that can be put in; of {len(chosen)} a person must choose:")
        for code, reason in sorted(chosen.items()):
            print(f"  {code}: {reason}")
    assert mended | set(chosen) == set(catalogue())
    assert len(chosen) <= MUST_BE_CHOSEN


def _text(problems: tuple[Problem, ...]) -> str:
    return "".join(f"{str(problem).replace(problem.file, 'site.yml', 1)}\n" for problem in problems)


def _also(case: str) -> set[str]:
    """The codes that a case says come along."""
    file = FOLDER / case / "also.txt"
    return {line.split()[0] for line in file.read_text(encoding="utf-8").splitlines()} if file.exists() else set()


@pytest.mark.parametrize("case", CASES)
def test_bad_site_gives_exactly_its_errors(case: str, tmp_path: Path) -> None:
    problems = _problems(case, tmp_path)
    expected = FOLDER / case / "expected.txt"
    if os.environ.get("PINION_WRITE_EXPECTED"):
        expected.write_text(_text(problems), encoding="utf-8")
    assert _text(problems) == expected.read_text(encoding="utf-8")
    own = CODE.match(case)
    if own is not None:
        assert own[0] in {problem.code for problem in problems}
        assert {problem.code for problem in problems} == {own[0]} | _also(case)


def test_every_code_has_a_case() -> None:
    assert len(catalogue()) >= 40
    covered = {match[0] for case in CASES if (match := CODE.match(case))}
    assert covered == set(catalogue())


def test_twelve_mistakes_are_twelve_problems_in_one_run(tmp_path: Path) -> None:
    problems = _problems("twelve-mistakes", tmp_path)
    assert len(problems) == 12
    assert len({problem.code for problem in problems}) == 12


def test_every_problem_says_where_and_how_to_mend_it(tmp_path: Path) -> None:
    for case in CASES:
        for problem in _problems(case, tmp_path):
            assert problem.line >= 1, problem
            assert problem.column >= 1, problem
            assert problem.message, problem
            assert problem.fix, problem
            assert "{" not in problem.message.replace("'{' is", "").replace("'}'", ""), problem
