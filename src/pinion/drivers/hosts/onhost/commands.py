"""Shell commands that make a changed file count."""

from __future__ import annotations

from .command import run

#: An initramfs or all locales of a small board, made anew from a slow SD card.
SECONDS = 600


class Shell:
    """Implements `machine.Commands`."""

    def run(self, command: str) -> None:
        run(["/bin/sh", "-c", command], seconds=SECONDS)

    def holds(self, command: str) -> bool:
        return run(["/bin/sh", "-c", command], check=False).returncode == 0
