"""systemd itself reads every unit that the nodes' concerns place."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.hosts.nodes import JOINED, NEEDED, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.model import HostPlan

UNITS = "/etc/systemd/system/"


def _alone() -> list[HostPlan]:
    return [host for plan in (stated(DC), stated(LAB)) for host in plan.hosts]


def _joined() -> list[HostPlan]:
    """With Pis that join the cluster: some of their units are others of the same name."""
    source = {"url": "https://files.example/kubelet", "sha256": "ab" * 32}
    needed = {name: NEEDED.get(name, {}) for name in ("model_store", "edge_runtime")}
    return list(stated(DC, {**needed, "edge_cluster": {"source": source}}, **JOINED).hosts)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("hosts", [_alone, _joined])
def test_units_are_sound(tmp_path: Path, hosts: Callable[[], list[HostPlan]]) -> None:
    found: dict[str, str] = {}
    for host in hosts():
        for concern in host.concerns.values():
            for file in concern.files:
                name = file.path.removeprefix(UNITS)
                if file.path.startswith(UNITS) and "/" not in name:
                    found[name] = file.content
    assert found
    programs = tmp_path / "program"
    programs.write_text("#!/bin/sh\n")
    programs.chmod(0o755)
    for name, content in found.items():
        # The programs are on the hosts and not here; everything else is as it will be.
        lines = [
            f"{line.partition('=')[0]}={programs}" if line.startswith("Exec") else line for line in content.splitlines()
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in found)],
        capture_output=True,
        text=True,
        check=False,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/usr/sbin"},
    )
    wrong = [line for line in said.stderr.splitlines() if any(name in line for name in found)]
    assert wrong == []


def test_units_that_are_stated_are_placed_or_come_from_a_package() -> None:
    """A timer or service of ours that is to run must be one of the files of the same concern."""
    for host in (*_alone(), *_joined()):
        for concern in host.concerns.values():
            placed = {file.path.removeprefix(UNITS) for file in concern.files}
            ours = [unit.name for unit in concern.units if unit.name.startswith("pinion-")]
            assert set(ours) <= placed, f"{host.name} {concern.name}"
