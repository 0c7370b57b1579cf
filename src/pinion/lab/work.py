"""Work items that run side by side and wait for one another by name; all failures are told, not only the first."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from pinion.lab.errors import LabError
from pinion.lab.progress import Progress


class NotReachedError(LabError):
    """Work that was not done because work that it waits for had failed."""


class Work:
    """A set of named work items. An item may wait for any other, so there are as many threads as items."""

    def __init__(self, progress: Progress, items: int) -> None:
        self._progress = progress
        self._pool = ThreadPoolExecutor(max_workers=max(items, 1), thread_name_prefix="lab")
        self._futures: dict[str, Future[None]] = {}
        self._known = threading.Condition()

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Start item *name*."""

        def item() -> None:
            try:
                work()
            finally:
                self._progress.waits(name, None)

        with self._known:
            self._futures[name] = self._pool.submit(item)
            self._known.notify_all()

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
