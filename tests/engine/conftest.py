"""Real-engine tests: every test here runs the `pulumi` program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from engine.stack import Stack, missing_tool

from pinion.plan import Plan, plan
from pinion.site.loader import load

REPOSITORY = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs the engine."""
    why = missing_tool()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def lab_plan() -> Plan:
    """The plan of the lab."""
    return plan(load(REPOSITORY / "inventories/lab/site.yml"))


@pytest.fixture
def switch_stack(tmp_path: Path, lab_plan: Plan) -> Stack:
    """A stack with one switch that lives in a file."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "pulumi-resource-pinion"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("file_switch.py")} "$@"\n')
    script.chmod(0o755)
    stack = Stack(tmp_path, environment={"ENGINE_TEST_SWITCHES": str(tmp_path)})
    stack.wishes = {"switches": [lab_plan.switches[0].model_dump(mode="json")]}
    return stack
