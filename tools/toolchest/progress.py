"""Progress lines on stderr: which tool, which stage, how long already, how long still."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

#: Seconds between lines while nothing new happens.
HEARTBEAT = 15.0


def clock(seconds: float) -> str:
    """Return minutes and seconds as 3:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Says what goes on, at each change and every 15 s. Safe to use from many threads."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total, self._stream = total, stream or sys.stderr
        self._started = time.monotonic()
        self._ready = 0
        self._now: dict[str, tuple[str, float, float]] = {}
        self._waiting: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._beat = threading.Thread(target=self._heartbeat, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._beat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._beat.join()

    def say(self, text: str) -> None:
        """Print one line with the time since the start."""
        with self._lock:
            print(f"tools {clock(time.monotonic() - self._started)}  {text}", file=self._stream, flush=True)

    def stage(self, tool: str, stage: str, estimate: float = 0.0) -> None:
        """Note that a tool entered a stage that takes about `estimate` seconds (0: not known)."""
        with self._lock:
            self._now[tool] = (stage, time.monotonic(), estimate)
            self._waiting.pop(tool, None)
        if estimate >= 1:
            self.say(f"{tool}: {stage}, at most about {clock(estimate)}")

    def queued(self, tool: str, estimate: float) -> None:
        """Note that a tool waits for its turn to be built."""
        with self._lock:
            self._now.pop(tool, None)
            self._waiting[tool] = estimate

    def finished(self, tool: str, text: str, *, news: bool) -> None:
        """Note that a tool is ready, or failed; what was there already is counted without a line."""
        with self._lock:
            self._ready += 1
            self._now.pop(tool, None)
            self._waiting.pop(tool, None)
            ready = self._ready
        if news:
            self.say(f"{tool}: {text} ({ready} of {self._total})")

    def seconds_left(self) -> float:
        """Return the estimate for all Go builds still to do; stages without an estimate count as 0."""
        now = time.monotonic()
        running = sum(max(estimate - (now - since), 0.0) for _, since, estimate in self._now.values())
        return running + sum(self._waiting.values())

    def _heartbeat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            with self._lock:
                now = time.monotonic()
                parts = [f"{tool}: {stage} {clock(now - since)}" for tool, (stage, since, _) in self._now.items()]
                left, waiting = self.seconds_left(), len(self._waiting)
            queue = f"; {waiting} wait their turn" if waiting else ""
            estimate = f"; at most about {clock(left)} left" if left >= 1 else ""
            self.say((", ".join(parts) or "working") + queue + estimate)
