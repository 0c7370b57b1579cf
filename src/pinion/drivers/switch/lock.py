"""One run at a time on a switch, among all runs that share a lock folder; and a name for that folder.

The name (`owner`) goes into the configuration sessions that a run opens on the switch. Whoever holds the lock knows that every session of
its own owner was left behind by a run that died, because a living one would hold the lock: so it may clean up at once.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pinion.drivers.switch.errors import SwitchBusyError

#: Seconds between two tries for the lock.
_PAUSE = 0.1


def owner(folder: Path) -> str:
    """Eight hexadecimal digits that name *folder*: made once, at random, then always the same."""
    path = folder / "owner"
    if (found := _read(path)) is not None:
        return found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # on the folder itself: whoever asks meanwhile waits, and then finds it
        if (found := _read(path)) is not None:
            return found
        found = secrets.token_hex(4)
        draft = folder / f".owner-{os.getpid()}-{secrets.token_hex(4)}"
        draft.write_text(f"{found}\n", encoding="ascii")
        draft.replace(path)
        return found
    finally:
        os.close(descriptor)


def _read(path: Path) -> str | None:
    """The name in *path*; None when there is none, or one that was not written to its end."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    return text if re.fullmatch(r"[0-9a-f]{8}", text) else None


@contextmanager
def locked(folder: Path, host: str, port: int, switch: str, wait: float) -> Iterator[None]:
    """Hold the lock of the switch at *host*:*port*. Waits at most *wait* seconds, then raises `SwitchBusyError`.

    The kernel releases the lock when the process ends, however it ends.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^0-9A-Za-z.-]', '_', host)}-{port}.lock"
    give_up = time.monotonic() + wait
    with path.open("a+", encoding="ascii") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    file.seek(0)
                    holder = file.read().strip() or "unknown"
                    raise SwitchBusyError(
                        switch,
                        f"another run (process {holder}) is at work on it for more than {wait:g} s",
                        hint="wait for it, then run again",
                    ) from None
                time.sleep(_PAUSE)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
