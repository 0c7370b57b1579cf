"""Progress of long work: what was done, how long it took, and every few seconds what is being waited for."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO


class Progress:
    """Lines ``[ 12.3s] stage: text`` on *stream*, and in *log* when given. Safe to call from many threads."""

    #: Seconds of silence after which the open waits are told.
    SILENCE = 10.0

    def __init__(self, stream: TextIO | None = None, log: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._log = log
        self._started = self._spoke = time.monotonic()
        self._lock = threading.Lock()
        self._waits: dict[str, tuple[str, float]] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._started

    def say(self, stage: str, text: str) -> None:
        """Tell that *stage* did something."""
        with self._lock:
            self._print(f"{stage}: {text}")

    def waits(self, stage: str, what: str | None) -> None:
        """Note what *stage* waits for; None when it waits no more."""
        with self._lock:
            if what is None:
                self._waits.pop(stage, None)
            elif self._waits.get(stage, ("", 0.0))[0] != what:
                self._waits[stage] = (what, time.monotonic())
            self._tick()

    def tick(self) -> None:
        """Tell the open waits when it has been silent for long."""
        with self._lock:
            self._tick()

    def _tick(self) -> None:
        now = time.monotonic()
        if self._waits and now - self._spoke > self.SILENCE:
            waits = ", ".join(
                f"{stage} for {what} ({now - since:.0f} s)" for stage, (what, since) in sorted(self._waits.items())
            )
            self._print(f"waiting: {waits}")

    def _print(self, text: str) -> None:
        self._spoke = time.monotonic()
        line = f"[{self.elapsed:6.1f}s] {text}"
        for stream in (self._stream, self._log):
            if stream is not None:
                print(line, file=stream, flush=True)
