"""Calls that arrive together become one: what DataLoader does for web servers, for threads.

The first caller to find nobody at work waits a moment for others, takes all that came, does the work for all of them and hands each
its own result. Those who come meanwhile are taken next: the busier it gets, the larger the batches.

Invariants: every call gets its own result or its own error; an error in the work itself goes to each caller of that batch; no
thread is kept when nobody calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Gathers calls of *work*, which takes a list and answers with as many results or exceptions.

    *window*: seconds without a newcomer after which a batch is closed; *longest*: seconds after which it is closed anyway;
    *largest*: items in one batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        window: float,
        *,
        longest: float | None = None,
        largest: int = 1000,
    ) -> None:
        self._work = work
        self._window = window
        self._longest = 5 * window if longest is None else longest
        self._largest = largest
        self._waiting: list[tuple[Item, Future[Result]]] = []
        self._changed = threading.Condition()
        self._busy = False

    def call(self, item: Item) -> Result:
        """The result for *item*, together with whoever calls at the same time."""
        future: Future[Result] = Future()
        with self._changed:
            self._waiting.append((item, future))
            self._changed.notify_all()
            leads = not self._busy
            if leads:
                self._busy = True
        if leads:
            self._lead()
        return future.result()

    def _lead(self) -> None:
        """Work off batches until nobody waits; then the next caller leads."""
        while True:
            batch = self._gather()
            if not batch:
                return
            try:
                results = self._work([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, each caller must hear of it
                for _, future in batch:
                    future.set_exception(error)
                continue
            except BaseException as error:
                for _, future in batch:
                    future.set_exception(error)
                with self._changed:
                    self._busy = False
                raise
            for (_, future), result in zip(batch, results, strict=True):
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _gather(self) -> list[tuple[Item, Future[Result]]]:
        with self._changed:
            if not self._waiting:
                self._busy = False
                return []
            end = time.monotonic() + self._longest
            seen = len(self._waiting)
            while len(self._waiting) < self._largest:
                left = min(self._window, end - time.monotonic())
                if left <= 0:
                    break
                self._changed.wait(left)
                if len(self._waiting) == seen:
                    break
                seen = len(self._waiting)
            batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            return batch
