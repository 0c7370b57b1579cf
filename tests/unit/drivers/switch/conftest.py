"""Switches to drive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.drivers.switch.bench import LoopbackBench
from unit.drivers.switch.plans import PORTS

from pinion.lab.switch.loopback import LoopbackSwitch


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[LoopbackBench]:
    """The lab's switch program with four ports, over SSH on loopback."""
    with LoopbackSwitch(tmp_path / "switch", ports=PORTS) as switch:
        yield LoopbackBench(switch, tmp_path)
