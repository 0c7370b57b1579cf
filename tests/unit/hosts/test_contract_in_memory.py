"""The in-memory host keeps the contract that the real one keeps (tests/lab/test_hosts_contract.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from doubles.hosts import MemoryHost
from unit.hosts.contract import CONTRACT, NEEDED, SYSCTL, UNIT

from pinion.drivers.hosts.onhost.machine import Machine, UnitState


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_contract(promise: Callable[[Machine], None]) -> None:
    host = MemoryHost(
        packages={NEEDED, "bash"},
        needs={NEEDED: {"bash"}},
        sysctls={SYSCTL: "7200"},
        units={UNIT: UnitState(enabled=True, active=True)},
        fail={"echo why >&2; exit 3": "why"},
    )
    promise(host.machine())
