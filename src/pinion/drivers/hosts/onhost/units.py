"""systemd units, by systemctl."""

from __future__ import annotations

from collections.abc import Sequence

from .command import run
from .machine import UnitState
from .wanted import Unit

#: A service may take systemd's own default of 90 s to start, and as long to stop.
CHANGE_SECONDS = 200
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
            run(["systemctl", "try-reload-or-restart", "--", name], seconds=CHANGE_SECONDS)

    def restart(self, name: str) -> None:
        if _is_there(name):
            run(["systemctl", "try-restart", "--", name], seconds=CHANGE_SECONDS)


def _is_there(name: str) -> bool:
    """Whether systemd knows the unit: one whose own file has just gone with its concern has nothing left to read."""
    shown = run(["systemctl", "show", "--property=LoadState", "--value", "--", name]).stdout
    return shown.strip() not in {"not-found", "masked"}
