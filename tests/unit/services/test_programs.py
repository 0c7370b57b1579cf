"""What holds for every program that a concern places on nodes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pinion.plan.programs import FOLDER, program_file, run_once
from pinion.services import node_programs

HERE = Path(node_programs.__file__).parent
PROGRAMS = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "__init__")


def test_there_are_programs() -> None:
    assert {"eeprom_settings", "gpu_modes", "irq_pinning", "nic_tuning", "power_thermal"} <= set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_one_file_of_the_standard_library_alone(name: str) -> None:
    path = HERE / f"{name}.py"
    text = path.read_text()
    assert re.match(r"#!/usr/bin/python3 -IS?\n", text), "isolated: no environment or folder of a user gets in"
    assert os.access(path, os.X_OK)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or ""]
        else:
            continue
        assert {each.partition(".")[0] for each in names} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_placed_whole_and_is_on_the_page(name: str) -> None:
    file = program_file(name)
    assert file.path == f"{FOLDER}/{name.replace('_', '-')}"
    assert file.mode == "0755"
    assert file.content == (HERE / f"{name}.py").read_text()
    (line,) = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith(f"| `{name}.py` |")]
    checks = line.split("|")[4].strip()
    assert checks == ("yes" if 'add_argument("--check"' in file.content else ""), (
        "the page says whether it takes --check"
    )


def test_a_program_that_is_gone_or_finds_less_than_all_is_no_failure(tmp_path: Path) -> None:
    """An undone concern runs its commands once more, when its files are gone; exit 1 is for the checks to tell."""
    path = tmp_path / "program"
    command = run_once("irq_pinning").replace(f"{FOLDER}/irq-pinning", str(path))
    assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 0
    for code, good in ((0, True), (1, True), (2, False), (127, False)):
        path.write_text(f"#!/bin/sh\nexit {code}\n")
        path.chmod(0o755)
        assert (subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 0) is good
