"""A table of bad site files (`bad_sites.yml`): what must be told of each, where, and nothing else.

Each row makes a file of a good one. What a person would get wrong goes there, by the class of its mistake; how a rule counts is tested
beside the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from site_fixes import refusals

from pinion.site.loader import Problem, read

ROOT = Path(__file__).resolve().parents[3]
SITES = {
    "every": ROOT / "tests" / "unit" / "plan" / "every_key.yml",
    "lab": ROOT / "inventories" / "lab" / "site.yml",
    "rack": ROOT / "inventories" / "dc-rack-12" / "site.yml",
}
#: Stands before the place that a problem must be told at.
MARK = "»"


@dataclass(frozen=True)
class BadSite:
    """One row: its *text*, the *codes* of the problems in the order of the file, and the *places* of those that are marked."""

    name: str
    text: str
    codes: tuple[str, ...]
    places: tuple[tuple[int, int], ...]


def bad_sites() -> Iterator[BadSite]:
    """Every row of the table."""
    table = yaml.safe_load(Path(__file__).with_name("bad_sites.yml").read_text(encoding="utf-8"))
    for kind, rows in table.items():
        for number, (site, old, new, codes) in enumerate(rows, 1):
            text = SITES[site].read_text(encoding="utf-8")
            told = [code for code in _list(codes) if code != "OK"]
            yield _made(f"{kind}, {number}", text, _list(old), _list(new), told)


def _made(name: str, text: str, old: list[str], new: list[str], codes: list[str]) -> BadSite:
    for was, becomes in zip(old, new, strict=True):
        assert was in text, f"{name}: the site has no {was!r}"
        text = text.replace(was, becomes, 1)
    places = []
    while MARK in text:
        before, _, after = text.partition(MARK)
        places.append((before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1))
        text = before + after
    return BadSite(name, text, tuple(codes), tuple(places))


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("bad", list(bad_sites()), ids=lambda bad: bad.name)
def test_a_bad_site_is_told_as_what_it_is(bad: BadSite) -> None:
    site, problems = read(bad.text.encode(), "site.yml", charts=ROOT / "charts")
    said = [str(problem) for problem in problems]
    assert tuple(problem.code for problem in problems) == bad.codes, said
    assert set(bad.places) <= {(problem.line, problem.column) for problem in problems}, said
    assert (site is None) == bool(bad.codes), said


@pytest.mark.parametrize("bad", [each for each in bad_sites() if each.codes], ids=lambda bad: bad.name)
def test_a_fix_of_a_bad_site_is_accepted_or_says_why_it_is_none(bad: BadSite) -> None:
    def problems(text: str) -> tuple[Problem, ...]:
        return read(text.encode(), "site.yml", charts=ROOT / "charts")[1]

    wrong = list(refusals(bad.text, problems(bad.text), problems))
    assert not wrong, "\n".join(wrong)
