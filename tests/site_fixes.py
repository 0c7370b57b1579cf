"""Puts the fixes of a bad site file in, one by one, and says which of them do not mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pinion.site.errors import Problem
from pinion.site.fixes import Edit

Read = Callable[[str], Iterable[Problem]]


def put_in(text: str, edit: Edit, new: str) -> str:
    """*text* with *new* in the place that *edit* names."""
    lines = text.split("\n")

    def at(line: int, column: int) -> int:
        return sum(len(each) + 1 for each in lines[: line - 1]) + column - 1

    return text[: at(edit.line, edit.column)] + new + text[at(edit.end_line, edit.end_column) :]


def refusals(text: str, problems: Iterable[Problem], read: Read) -> Iterator[str]:
    """What is wrong with the fixes of the *problems* of *text*, whose problems *read* finds: nothing is yielded for good ones.

    A fix is good when its text, put in, takes that problem away and makes none at that place; or when it has no text, and says why.
    """
    told = tuple(problems)
    before = {(problem.code, problem.message) for problem in told}
    for problem in told:
        if (problem.replacement is None) == (problem.choice == ""):
            yield f"either a text or a reason why there is none: {problem}"
        for new in problem.replacement.texts if problem.replacement is not None else ():
            assert problem.replacement is not None
            for left in read(put_in(text, problem.replacement, new)):
                if _is_about(left, problem, before):
                    yield f"{problem}\n    {new!r} was put in: {left}"


def _is_about(left: Problem, problem: Problem, before: set[tuple[str, str]]) -> bool:
    """Whether *left*, found when *problem* was mended, is that problem still, or a new one at its key or at the place of its fix."""
    if (left.code, left.message) == (problem.code, problem.message):
        return left.line == problem.line
    if left.key and left.key == problem.key:
        return (left.code, left.message) not in before
    assert problem.replacement is not None
    places = {problem.line, problem.replacement.line}
    return (left.code, left.message) not in before and left.line in places and (not left.key or not problem.key)
