"""A fleet run on one screen: one line a wave, however many hosts it has; the log has a line a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from pinion.bringup.rollout import Progress, Wave
from pinion.cli.console import moves, new_console


class ScreenProgress(Progress):
    """Bars on a terminal, else a line when a wave begins and one when it has ended. *log* gets a line a host; None means quiet."""

    def __init__(self, log: TextIO | None, console: Console | None = None) -> None:
        self._log = log
        self._console = console or new_console(err=True, moving=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}"),
        )
        self._bars = Bars(*columns, TimeElapsedColumn(), console=self._console)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._log is not None and moves(self._console):
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def begins(self, number: int, of: int, hosts: Sequence[str]) -> None:
        """A line, or a bar."""
        if self._log is None:
            return
        name = f"wave {number} of {of}"
        if moves(self._console):
            self._task = self._bars.add_task(name, total=len(hosts), doing="converges")
        else:
            self._line(f"{name}: {_hosts(hosts)}")

    def heard(self, count: int) -> None:
        """*count* hosts of the wave have answered."""
        if self._task is not None:
            self._bars.update(self._task, completed=count)

    def verifies(self, wave: Wave) -> None:
        """The bar says so."""
        if self._task is not None:
            self._bars.update(self._task, completed=len(wave.hosts), doing="checks")

    def waits(self, text: str) -> None:
        """What the wave's checks wait for."""
        if self._task is not None:
            self._bars.update(self._task, doing=text)
        elif self._log is not None:
            self._line(text)

    def ended(self, number: int, of: int, wave: Wave) -> None:
        """What became of the wave; and a line a host for the log."""
        if self._log is None:
            return
        failed = len({stop.host for stop in wave.stops})
        said = f"{wave.changed} changed, {wave.proved} checks hold, {failed} failed"
        if wave.after_boot:
            said += f", {wave.after_boot} checks wait for a reboot"
        if self._task is not None:
            self._bars.update(self._task, completed=len(wave.hosts), doing=said)
            self._task = None
        else:
            self._line(f"wave {number} of {of}: {said}")
        for name, result in wave.results.items():
            changes = ", ".join(
                f"{change['concern']}: {change['kind']} {change['subject']}" for change in result.changes
            )
            self._log.write(f"{name}: {len(result.changes)} changes{': ' if changes else ''}{changes}\n")
            for error in result.errors:
                self._log.write(f"{name}: FAILED: {error}\n")
        for waits in wave.waiting:
            self._log.write(f"{waits.host}: WAITS FOR A BOOT: {waits.what}\n")
        for stop in wave.stops:
            self._log.write(f"{stop.host}: STOPPED: {stop.what}\n")
        self._log.flush()

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _hosts(hosts: Sequence[str]) -> str:
    """One host by its name, more by their number."""
    return hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
