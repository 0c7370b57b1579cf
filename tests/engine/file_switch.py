"""Switches that live in files, so that the provider may die and they do not: the in-memory switch, saved after every change."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doubles.switch import MemorySwitch

from pinion.drivers.switch import SwitchDiff, SwitchDriver, SwitchState
from pinion.plan.model import SwitchPlan
from pinion.provider.main import PinionPlugin
from pinion.provider.plugin import serve


class FileSwitch:
    """One switch in *path*. A change is there whole or not at all, as with a configuration session."""

    def __init__(self, path: Path, plan: SwitchPlan) -> None:
        self._path = path
        self._plan = plan

    @contextmanager
    def _held(self) -> Iterator[SwitchDriver]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            switch = MemorySwitch(self._plan.name, [port.name for port in self._plan.ports])
            if self._path.exists():
                held = SwitchState.model_validate_json(self._path.read_text())
                switch.edit(lambda _: held)
            before = switch.state
            yield switch.driver()
            if switch.state != before:
                new = self._path.with_suffix(".new")
                new.write_text(switch.state.model_dump_json())
                new.rename(self._path)

    def read(self) -> SwitchState:
        with self._held() as driver:
            return driver.read()

    def diff(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        with self._held() as driver:
            return driver.diff(want, previous)

    def apply(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        with self._held() as driver:
            return driver.apply(want, previous)

    def undo(self, had: SwitchPlan) -> SwitchDiff:
        with self._held() as driver:
            return driver.undo(had)


class FileSwitchPlugin(PinionPlugin):
    """The provider, but switches are files in $ENGINE_TEST_SWITCHES."""

    def switch_driver(self, plan: SwitchPlan) -> SwitchDriver:
        return FileSwitch(Path(os.environ["ENGINE_TEST_SWITCHES"]) / f"{plan.name}.json", plan)


if __name__ == "__main__":
    raise SystemExit(serve(FileSwitchPlugin()))
