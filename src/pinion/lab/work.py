"""Work items that run side by side and wait for one another by name; all failures are told, not only the first.

A failure is told at once. What is under way then has a short while to end, since it may well be kept; after that it is given up at its
next sign of life, so that nobody waits twenty minutes for a build to learn that the one beside it failed in the first second.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from pinion.lab.errors import LabError
from pinion.lab.progress import Progress

#: Seconds that work under way has after a failure.
GRACE = 20.0


class NotReachedError(LabError):
    """Work that was not done, or not ended, because other work had failed."""


class Work:
    """A set of named work items. An item may wait for any other, so there are as many threads as items.

    *give_up* is called once when the *grace* (seconds) after a failure is over; it ends what items cannot end themselves.
    """

    def __init__(
        self, progress: Progress, items: int, *, give_up: Callable[[], object] = lambda: None, grace: float = GRACE
    ) -> None:
        self._progress = progress
        self._give_up = give_up
        self._grace = grace
        self._failed: float | None = None  # when, by the monotonic clock
        self._stopped = False
        self._pool = ThreadPoolExecutor(max_workers=max(items, 1), thread_name_prefix="lab")
        self._futures: dict[str, Future[None]] = {}
        self._known = threading.Condition()

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Start item *name*."""

        def item() -> None:
            try:
                work()
            except NotReachedError:
                raise
            except Exception as error:
                self._fails(name, error)
                raise
            finally:
                self._progress.waits(name, None)

        with self._known:
            self._futures[name] = self._pool.submit(item)
            self._known.notify_all()

    def _fails(self, name: str, error: Exception) -> None:
        """Tell a failure at once; what fails only because it was given up is no failure of its own."""
        if self._stopped:
            raise NotReachedError(f"{name} was given up") from error
        self._failed = self._failed or time.monotonic()
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        self._progress.say(name, f"FAILED: {reason}; what else is under way has {self._grace:.0f} s to end")

    @property
    def _over(self) -> bool:
        return self._failed is not None and time.monotonic() - self._failed > self._grace

    def go_on(self) -> None:
        """A sign of life of an item: `NotReachedError` when it is to end because another one has failed."""
        if self._over:
            raise NotReachedError("given up: other work had failed")

    def need(self, names: Iterable[str]) -> None:
        """Wait until items *names* are done; `NotReachedError` when one of them failed. Call it from an item."""
        for name in names:
            with self._known:
                while name not in self._futures:
                    self._known.wait()
                future = self._futures[name]
            if future.exception() is not None:
                raise NotReachedError(f"{name} failed")

    def finish(self) -> None:
        """Wait for all items, telling now and then what is waited for; `LabError` with every failure."""
        pending = set(self._futures.values())
        while pending:
            _, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            self._progress.tick()
            if self._over and not self._stopped:
                self._stopped = True
                self._give_up()
        self._pool.shutdown()
        failures = []
        for name, future in self._futures.items():
            error = future.exception()
            if error is None or isinstance(error, NotReachedError):
                continue
            told = str(error) if isinstance(error, LabError) else "".join(traceback.format_exception(error)).rstrip()
            failures.append(f"{name}: {told}")
        if failures:
            raise LabError("\n".join(failures))
