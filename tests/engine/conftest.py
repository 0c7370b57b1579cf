"""Real-engine tests: every test here runs the `pulumi` program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.netbox_server import TOKEN, Server, serving
from engine.stack import Stack, missing_tool

from pinion.drivers.netbox import device_record, site_records, vlan_record
from pinion.plan import Plan, plan
from pinion.plan.model import DeviceKind
from pinion.site.loader import load

REPOSITORY = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs the engine."""
    why = missing_tool()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(900))  # many runs of a real engine, on a machine that may be busy
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def lab_plan() -> Plan:
    """The plan of the lab."""
    return plan(load(REPOSITORY / "inventories/lab/site.yml"))


@pytest.fixture
def netbox() -> Iterator[Server]:
    """An in-memory NetBox behind HTTP."""
    with serving() as server:
        yield server


@pytest.fixture
def netbox_stack(tmp_path: Path, lab_plan: Plan, netbox: Server) -> Stack:
    """A stack with the lab's NetBox records."""
    stack = Stack(tmp_path, config={"netbox:url": netbox.url}, secrets={"netbox:token": TOKEN})
    stack.wishes = records(lab_plan)
    return stack


def records(plan: Plan) -> dict[str, Any]:
    """All NetBox records of a plan, as the program reads them."""
    devices = sorted(plan.devices, key=lambda device: device.kind is not DeviceKind.SWITCH)
    return {
        "sites": [site_records(plan).model_dump(mode="json")],
        "vlans": [vlan_record(plan, vlan.name).model_dump(mode="json") for vlan in plan.vlans],
        "devices": [device_record(plan, device.name).model_dump(mode="json") for device in devices],
    }


def small(plan: Plan) -> dict[str, Any]:
    """One site with its VLANs, the switch and a Pi: every kind of record, few enough for many runs."""
    wishes = records(plan)
    wishes["devices"] = [one for one in wishes["devices"] if one["name"] in {"tor-1", "pi-01"}]
    return wishes


@pytest.fixture
def switch_stack(tmp_path: Path, lab_plan: Plan) -> Stack:
    """A stack with one switch that lives in a file."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "pulumi-resource-pinion"
    program, tests = Path(__file__).with_name("file_switch.py"), Path(__file__).parents[1]
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tests} exec {sys.executable} {program} "$@"\n')
    script.chmod(0o755)
    stack = Stack(tmp_path, environment={"ENGINE_TEST_SWITCHES": str(tmp_path)})
    stack.wishes = {"switches": [lab_plan.switches[0].model_dump(mode="json")]}
    return stack
