"""One rack for all scenarios of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.command_lines import collected
from scenarios.rack import Rack, sweep, write_project


@pytest.fixture(scope="package")
def command_lines() -> set[bytes]:
    """The command lines that could be read while the rack came up."""
    return set()


@pytest.fixture(scope="package")
def rack(tmp_path_factory: pytest.TempPathFactory, command_lines: set[bytes]) -> Iterator[Rack]:
    """A rack that is up and converged; taken down, with its data, at the end."""
    if os.geteuid() != 0:
        pytest.skip("a rack in a box needs root")
    sweep()
    root = tmp_path_factory.mktemp("site")
    write_project(root)
    made = Rack(root=root, instance=f"t{os.getpid()}")
    try:
        with collected() as seen:
            made.up()
        command_lines |= seen
        yield made
    finally:
        made.run(
            "pinion", "lab", "down", "--site", str(made.site_file), "--instance", made.instance, "--purge", check=False
        )
        shutil.rmtree(root, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the rack."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.timeout(1800))
