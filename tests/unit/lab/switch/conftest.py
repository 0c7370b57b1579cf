"""A lab switch in this process: data plane in memory, a clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from unit.lab.switch.configs import BASE

from pinion.lab.switch.nos.core import Switch
from pinion.lab.switch.nos.dataplane import MemoryDataPlane
from pinion.lab.switch.nos.shell import Shell
from pinion.lab.switch.nos.storage import Storage


@dataclass
class Rig:
    """One switch, its folders, and its clock."""

    folder: Path
    plane: MemoryDataPlane = field(default_factory=MemoryDataPlane)
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.switch = self.restarted()

    def restarted(self) -> Switch:
        """What a new process makes of what the old one left."""
        storage = Storage(self.folder / "flash", self.folder / "run")
        self.switch = Switch(storage, self.plane, BASE, lambda: self.now)
        return self.switch

    def rebooted(self) -> Switch:
        """The same after a power cycle."""
        for path in (self.folder / "run").iterdir():
            path.unlink()
        return self.restarted()

    def shell(self, *lines: str, terminal: str = "vty1") -> Shell:
        """A privileged login that has said *lines*."""
        shell = Shell(self.switch, "ops", terminal)
        for line in ("enable", *lines):
            answer = shell.execute(line)
            assert not answer.startswith("%"), f"{line}: {answer}"
        return shell


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A switch out of the box."""
    return Rig(tmp_path)
