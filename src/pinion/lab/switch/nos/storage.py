"""Where a switch keeps what must outlive its process.

Two folders: *flash* survives a reboot and holds the start-up configuration; *run* does not, and holds the running configuration with a
running commit timer, so that a killed and restarted process goes on where it was. Every file is replaced whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def uptime() -> float:
    """Seconds since this machine booted. No change of the wall clock touches it, and processes agree on it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class ArmedTimer:
    """A commit that waits for its confirmation: *session*, the *deadline* by `uptime`, and the configuration text to go back to."""

    session: str
    deadline: float
    rollback: str


@dataclass(frozen=True)
class Saved:
    """The running configuration text, and the commit timer if one runs."""

    running: str
    timer: ArmedTimer | None = None


class Storage:
    """The two folders. Both are made when they are missing."""

    def __init__(self, flash: Path, run: Path) -> None:
        self._startup = flash / "startup-config"
        self._running = run / "running.json"
        for folder in (flash, run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def startup(self) -> str | None:
        """The start-up configuration, None when none was ever saved."""
        try:
            return self._startup.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def save_startup(self, text: str) -> None:
        """Replace the start-up configuration; it is on the disk when this returns. `OSError` when that fails."""
        _replace(self._startup, text)

    def running(self) -> Saved | None:
        """What ran before this process, None when nothing did since the machine booted."""
        try:
            found = json.loads(self._running.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if found.get("boot") != _boot():
            return None
        timer = found.get("timer")
        return Saved(found["running"], ArmedTimer(**timer) if timer else None)

    def save_running(self, saved: Saved) -> None:
        """Replace what the next process starts from. `OSError` when that fails."""
        timer = saved.timer
        content = {
            "boot": _boot(),
            "running": saved.running,
            "timer": {"session": timer.session, "deadline": timer.deadline, "rollback": timer.rollback}
            if timer
            else None,
        }
        _replace(self._running, json.dumps(content))


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
