"""systemd units, by systemctl."""

from __future__ import annotations

from collections.abc import Sequence

from .command import run
from .machine import UnitState
from .wanted import Unit

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
            )
            for name, block in zip(names, blocks, strict=True)
        }

    def put(self, unit: Unit) -> None:
        run(["systemctl", "enable" if unit.enabled else "disable", "--", unit.name])
        run(["systemctl", "start" if unit.active else "stop", "--", unit.name])

    def reload(self, name: str) -> None:
        run(["systemctl", "try-reload-or-restart", "--", name])
