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


def on_its_way(lab_plan: Plan, arrives: Sequence[int | None], seconds: float = 0.0) -> tuple[list[Outcome], float]:
    """Outcomes and time of a claim that settles and one that hangs on it. *arrives*: an entry a look, then the last; None: all is there."""
    first, second = checks(lab_plan)[:2]
    model = first.model_copy(update={"settles": True})
    now = 0.0
    looks = 0

    def look(some: Sequence[Check]) -> list[Finding]:
        nonlocal looks
        percent = arrives[min(looks, len(arrives) - 1)]
        looks += 1
        return [
            judge(check, check.expected if percent is None else f"{percent} % here" if check is model else "no", 0.0)
            for check in some
        ]

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    found = settled(look, [model, second], seconds=seconds, tell=lambda _: None, sleep=sleep, clock=lambda: now)
    return [finding.outcome for finding in found], now


def test_what_is_on_its_way_is_waited_for_as_long_as_it_moves(lab_plan: Plan) -> None:
    outcomes, took = on_its_way(lab_plan, [*range(100), None])
    assert outcomes == [Outcome.PROVED, Outcome.PROVED], "what hangs on it was looked at again"
    assert took > 300, "longer than a claim that stands still is given"


def test_what_stands_still_has_failed(lab_plan: Plan) -> None:
    outcomes, took = on_its_way(lab_plan, [*range(10), 10])
    assert outcomes == [Outcome.FAILED, Outcome.FAILED]
    assert 120 < took < 180
