"""Seeded mutants of the shipped site files through all that is pure: rules, plan, renderers, NetBox records, cluster, checks.

What the rules refuse is refused with file, line, key and fix; what they accept makes no later part fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from thoroughness import points
from unit.plan.effects import effects
from unit.plan.mutants import mutant
from unit.plan.test_not_applied import sites

from pinion.plan import plan
from pinion.site.loader import Problem, read

ROOT = Path(__file__).resolve().parents[3]
#: Mutants of a block, and what part of them the rules must accept at least for the later parts to be tried at all.
BLOCK, ACCEPTED = 100, 0.05
#: Where a problem need name no key: what is wrong with the file as YAML.
KEYLESS = ("FILE", "YAML")


def site_files() -> list[Mapping[str, Any]]:
    """The site files of the repository, and two that state every key."""
    shipped = sorted((ROOT / "inventories").glob("*/site.yml"))
    return [*(yaml.safe_load(path.read_text(encoding="utf-8")) for path in shipped), *sites()]


@pytest.mark.parametrize("block", range(points(4, 200)))
def test_what_the_rules_accept_makes_no_later_part_fail(block: int) -> None:
    files, accepted = site_files(), 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        random = Random(seed)
        text = yaml.safe_dump(mutant(random.choice(files), random), allow_unicode=True, sort_keys=False)
        try:
            site, problems = read(text.encode(), "site.yml", charts=ROOT / "charts")
            assert all(map(_is_told_well, problems)), problems
            if site is not None:
                accepted += 1
                effects(plan(site))
        except Exception as failed:
            failed.add_note(f"seed {seed}:\n{text}")
            raise
    assert accepted >= BLOCK * ACCEPTED


def _is_told_well(problem: Problem) -> bool:
    placed = problem.file == "site.yml" and problem.line >= 1 and problem.column >= 1
    keyed = bool(problem.key) or problem.code.startswith(KEYLESS)
    return placed and keyed and bool(problem.fix) and (problem.replacement is not None) != bool(problem.choice)
