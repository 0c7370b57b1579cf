"""systemd units, by systemctl."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from .command import run
from .machine import UnitState
from .wanted import Unit

#: A service may take systemd's own default of 90 s to start, and as long to stop.
CHANGE_SECONDS = 200
#: Seconds that a daemon may take to listen anew after a reload; one that keeps its sockets is waited for as long.
LISTEN_SECONDS = 5.0
#: The state of a socket that listens, in /proc/net/tcp (Linux, include/net/tcp_states.h).
_LISTEN = "0A"
#: Enabled as far as the next boot is concerned; a static or generated unit cannot be switched.
_ENABLED = {"enabled", "enabled-runtime", "static", "alias", "indirect", "generated"}


class Systemd:
    """Implements `machine.Units`."""

    def read(self, names: Sequence[str]) -> dict[str, UnitState]:
        if not names:
            return {}
        text = run(["systemctl", "show", "--property=ActiveState,UnitFileState", "--", *names]).stdout
        blocks = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.strip("\n").split("\n\n")]
        return {
            name: UnitState(
                enabled=block.get("UnitFileState", "") in _ENABLED,
                active=block["ActiveState"] in {"active", "activating", "reloading"},
                masked=block.get("UnitFileState", "") in {"masked", "masked-runtime"},
            )
            for name, block in zip(names, blocks, strict=True)
        }

    def put(self, unit: Unit) -> None:
        now = self.read([unit.name])[unit.name]
        if now.masked and not unit.masked:
            run(["systemctl", "unmask", "--", unit.name])
            now = self.read([unit.name])[unit.name]
        if unit.masked:
            run(["systemctl", "mask", "--", unit.name])
        elif now.enabled != unit.enabled:
            # What is enabled matters at the next boot, and systemd has read the unit's file by now: no reload of everything for a link.
            run(["systemctl", "--no-reload", "enable" if unit.enabled else "disable", "--", unit.name])
            if self.read([unit.name])[unit.name].enabled != unit.enabled:
                # A unit that another one names is held by systemd, with what it had read of it.
                run(["systemctl", "daemon-reload"])
        if now.active != unit.active:
            run(["systemctl", "start" if unit.active else "stop", "--", unit.name], seconds=CHANGE_SECONDS)

    def reload(self, name: str) -> None:
        if _is_there(name):
            before = _listening(name)
            run(["systemctl", "try-reload-or-restart", "--", name], seconds=CHANGE_SECONDS)
            # A reload by a signal has been sent, not done: until it listens anew, a login is let in by the old configuration, or refused.
            deadline = time.monotonic() + LISTEN_SECONDS
            while before and not _anew(before, _listening(name)) and time.monotonic() < deadline:
                time.sleep(0.05)

    def restart(self, name: str) -> None:
        if _is_there(name):
            run(["systemctl", "try-restart", "--", name], seconds=CHANGE_SECONDS)


def _is_there(name: str) -> bool:
    """Whether systemd knows the unit: one whose own file has just gone with its concern has nothing left to read."""
    shown = run(["systemctl", "show", "--property=LoadState", "--value", "--", name]).stdout
    return shown.strip() not in {"not-found", "masked"}


def _anew(before: set[str], now: set[str]) -> bool:
    return bool(now) and before.isdisjoint(now)


def _listening(name: str) -> set[str]:
    """The TCP sockets at which the unit's main process listens, as /proc names them (proc(5)): others after it has executed itself anew."""
    pid = run(["systemctl", "show", "--property=MainPID", "--value", "--", name]).stdout.strip()
    open_files = set()
    with contextlib.suppress(OSError):  # a process that has just ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir() if pid.isdigit() else ():
            with contextlib.suppress(OSError):  # one that has just been closed
                open_files.add(str(descriptor.readlink()))
    tables = [
        path.read_text().splitlines()[1:] for path in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")) if path.exists()
    ]
    rows = [line.split() for table in tables for line in table]
    return open_files & {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTEN}
