"""Batches: shared work, own results, own errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from pinion.drivers.netbox.batching import Batcher


def test_calls_that_come_together_are_worked_on_together() -> None:
    batches: list[Sequence[int]] = []

    def work(items: Sequence[int]) -> list[int | Exception]:
        batches.append(items)
        return [ValueError(item) if item % 7 == 0 else item * 2 for item in items]

    batcher: Batcher[int, int] = Batcher(work, 0.1)
    start = threading.Barrier(40)

    def call(item: int) -> int | str:
        start.wait()
        try:
            return batcher.call(item)
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(40) as pool:
        results = list(pool.map(call, range(40)))
    assert results == [str(item) if item % 7 == 0 else item * 2 for item in range(40)]
    assert sorted(item for batch in batches for item in batch) == list(range(40))
    assert len(batches) < 10


def test_those_who_come_while_we_work_are_next() -> None:
    sizes: list[int] = []

    def work(items: Sequence[int]) -> list[int | Exception]:
        sizes.append(len(items))
        time.sleep(0.15)
        return list(items)

    batcher: Batcher[int, int] = Batcher(work, 0.0)

    def later(item: int) -> int:
        time.sleep(0.0 if item == 0 else 0.05)
        return batcher.call(item)

    with ThreadPoolExecutor(9) as pool:
        assert list(pool.map(later, range(9))) == list(range(9))
    assert sum(sizes) == 9
    assert len(sizes) <= 4


def test_an_error_of_the_work_reaches_every_caller_and_the_next_batch_works() -> None:
    broken = threading.Event()
    broken.set()

    def work(items: Sequence[int]) -> list[int | Exception]:
        if broken.is_set():
            raise RuntimeError("no")
        return list(items)

    batcher: Batcher[int, int] = Batcher(work, 0.01)
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(batcher.call, n) for n in range(4)]:
            with pytest.raises(RuntimeError):
                future.result()
    broken.clear()
    assert batcher.call(5) == 5
    assert threading.active_count() < 20
