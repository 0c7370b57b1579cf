"""How long to keep trying: exponential back-off with jitter inside a fixed budget of seconds, and what Retry-After asks for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry


@dataclass(slots=True)
class Budget:
    """The seconds that one operation may take with all its repetitions.

    *first* is the first pause, doubled each time up to *longest*; each is shortened at random by up to half, so that many clients
    that failed together do not come back together.
    """

    seconds: float
    first: float = 0.2
    longest: float = 10.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    attempts: int = 0
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - self.clock())

    def pause(self, asked: float | None = None) -> bool:
        """Wait before another attempt, at least the *asked* seconds. False, at once, when that does not fit into the budget."""
        wait = min(self.longest, self.first * 2**self.attempts) * random.uniform(0.5, 1.0)
        self.attempts += 1
        if asked is not None:
            wait = max(asked, wait)
        if wait >= self.left:
            return False
        self.sleep(wait)
        return True


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for (a number or an HTTP date), None when it says nothing usable."""
    try:
        return Retry().parse_retry_after(value) if value else None
    except InvalidHeader:
        return None
