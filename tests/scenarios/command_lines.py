"""Every command line that anybody on this machine could have read while something ran."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds between two looks: a program that lives shorter may be missed, so many are started by what is watched.
_INTERVAL = 0.02
#: Seconds for which a process is looked at again: a fork becomes another program.
_YOUNG = 0.5


@contextmanager
def collected() -> Iterator[set[bytes]]:
    """The command lines of all processes while the block runs; arguments are divided by NUL, as in proc(5)."""
    seen: set[bytes] = set()
    first: dict[str, float] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_INTERVAL):
            now = time.monotonic()
            there = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - many times a second
            for name in there:
                if now - first.setdefault(name, now) > _YOUNG:
                    continue
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123 - many times a second
                        seen.add(file.read())
                except OSError:
                    continue  # it has ended
            for name in first.keys() - set(there):
                del first[name]

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
