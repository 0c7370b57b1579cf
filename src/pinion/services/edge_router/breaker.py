"""When the pool counts as down, and when it is tried again. Pure: whoever asks says what time it is, in seconds of one clock."""

from __future__ import annotations

from dataclasses import dataclass

#: So many failed requests in a row open it; a refused connection or a failed look does at once.
FAILURES = 3
#: Seconds until the first trial, and at most: each trial that fails doubles the wait, so that a pool that lies is asked ever more rarely.
FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
#: So many looks in a row must find it ready: a pool that comes and goes is not.
LOOKS = 4


@dataclass(slots=True)
class Breaker:
    """Closed: requests go to the pool. Open: none does. What looks opened, looks close; what failed requests opened, one that succeeds:
    after a while it is half open, which is to say that one request goes, and what comes of it decides.

    Attributes:
        open: whether it is open or half open. It begins so: nobody has seen the pool yet.
        looks: how many looks in a row have found the pool ready since it opened.
    """

    open: bool = True
    looks: int = 0
    _failures: int = 0
    _wait: float = FIRST_WAIT
    _opened: float = 0.0
    _trial: bool = False
    _answers_badly: bool = False

    def lets(self, now: float) -> bool:
        """Whether a request may go to the pool at *now*."""
        if not self.open:
            return True
        return self._answers_badly and not self._trial and self.looks >= LOOKS and now - self._opened >= self._wait

    def begun(self) -> None:
        """A request goes; while it is half open, no second one."""
        self._trial = self.open

    def succeeded(self) -> None:
        """A request was answered as it should."""
        if self._trial or not self.open:
            self._close()

    def failed(self, now: float, *, certain: bool = False) -> None:
        """A request was not; *certain* that no other would be either."""
        if self.open:
            if self._trial:
                self._wait = min(self._wait * 2, LONGEST_WAIT)
                self._reopen(now, answers_badly=not certain)
            return
        self._failures += 1
        if certain or self._failures >= FAILURES:
            self._reopen(now, answers_badly=not certain)

    def left(self) -> None:
        """A request has ended that says nothing of the pool: its client went away, or it was the request's own fault."""
        self._trial = False

    def looked(self, now: float, *, ready: bool) -> None:
        """A look at the pool found it *ready*, or not."""
        if not ready:
            if not self.open:
                self._reopen(now, answers_badly=False)
            self.looks = 0
            return
        self.looks += 1
        if self.open and not self._answers_badly and self.looks >= LOOKS:
            self._close()

    def _close(self) -> None:
        self.open, self._trial, self._answers_badly, self._failures, self._wait = False, False, False, 0, FIRST_WAIT

    def _reopen(self, now: float, *, answers_badly: bool) -> None:
        self.open, self._trial, self._answers_badly = True, False, answers_badly
        self._failures, self._opened, self.looks = 0, now, 0
