"""Claims that need a moment after a change are looked at again, for so long and no longer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pinion.bringup.verification import settled
from pinion.checks.claims import checks
from pinion.checks.model import Check, Finding, Outcome, judge
from pinion.plan import Plan, plan
from pinion.site.find import repository
from pinion.site.loader import load


@pytest.fixture(scope="module")
def lab_plan() -> Plan:
    """The plan of the embedded lab."""
    return plan(load(repository() / "inventories/lab/site.yml"))


class World:
    """Two claims, of which the second holds from *holds_at* seconds on. Time passes only by sleeping."""

    def __init__(self, plan: Plan, holds_at: float) -> None:
        self.wanted = checks(plan)[:2]
        self.holds_at = holds_at
        self.now = 0.0
        self.looks: list[int] = []
        self.told: list[str] = []

    def look(self, some: Sequence[Check]) -> list[Finding]:
        """What is found now."""
        self.looks.append(len(some))
        return [self._finding(check) for check in some]

    def _finding(self, check: Check) -> Finding:
        good = check == self.wanted[0] or self.now >= self.holds_at
        return judge(check, check.expected if good else "something else", seconds=0.0)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def settled(self, seconds: float) -> list[Outcome]:
        """The outcomes of the two claims."""
        found = settled(
            self.look, self.wanted, seconds=seconds, tell=self.told.append, sleep=self.sleep, clock=lambda: self.now
        )
        assert [finding.check for finding in found] == list(self.wanted)
        return [finding.outcome for finding in found]


def test_what_holds_a_little_later_is_proved(lab_plan: Plan) -> None:
    world = World(lab_plan, holds_at=7)
    assert world.settled(60) == [Outcome.PROVED, Outcome.PROVED]
    assert world.looks == [2, 1, 1, 1], "what is proved is not looked at again"
    assert world.now == 9
    assert world.wanted[1].claim in world.told[0]


def test_what_never_holds_has_failed_in_time(lab_plan: Plan) -> None:
    world = World(lab_plan, holds_at=1e9)
    assert world.settled(10) == [Outcome.PROVED, Outcome.FAILED]
    assert world.now <= 10


def test_without_time_to_settle_there_is_one_look(lab_plan: Plan) -> None:
    world = World(lab_plan, holds_at=1)
    assert world.settled(0) == [Outcome.PROVED, Outcome.FAILED]
    assert world.looks == [2]
    assert not world.told
