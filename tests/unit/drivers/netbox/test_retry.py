"""Retry budgets: bounded in total, polite to Retry-After."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.drivers.netbox.server.retry import Budget, retry_after


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def budget(self, seconds: float) -> Budget:
        return Budget(seconds, clock=lambda: self.now, sleep=self.sleep)


@given(st.lists(st.one_of(st.none(), st.floats(0, 50)), min_size=1, max_size=200), st.floats(0.1, 60))
def test_never_waits_longer_than_the_budget(asked: list[float | None], seconds: float) -> None:
    time = Time()
    budget = time.budget(seconds)
    for one in asked:
        before = time.now
        if not budget.pause(one):
            assert time.now == before, "a refusal must not wait first"
            break
        assert time.now - before >= (one or 0) - 1e-6
    assert time.now <= seconds + 1e-6


def test_gives_up() -> None:
    time = Time()
    budget = time.budget(30)
    while budget.pause():
        pass
    assert budget.attempts >= 5


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("0.5", None), ("-3", None), (None, None), ("", None), ("soon", None)]
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert retry_after(text) == seconds


def test_retry_after_as_a_date() -> None:
    found = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert found is not None
    assert 50 < found <= 60
