"""One rack for the concerns of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.serving_rack import until

from concerns.rack import ConcernsRack


@pytest.fixture(scope="package")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConcernsRack]:
    """Running: management host, pi-01 and nv-1 converged by Ansible, pi-02 by pyinfra."""
    if os.geteuid() != 0:
        pytest.skip("namespaces and mounts need root")
    made = ConcernsRack.make(tmp_path_factory.mktemp("concerns"), "t-concerns")
    try:
        made.up()
        for name in ("pi-01", "pi-02"):
            made.put_boot_files(name)
        answer = made.converge("ansible", "--limit", "mgmt-1", "--limit", "pi-01", "--limit", "nv-1")
        assert answer["failed"] == []
        assert [wave["hosts"] for wave in answer["waves"]] == [["mgmt-1"], ["pi-01"], ["nv-1"]]
        assert made.converge("pyinfra", "--limit", "pi-02")["failed"] == []
        for name in ("pi-01", "pi-02"):
            until(lambda name=name: made.serves(name), f"{name} serves", made, name)  # type: ignore[misc]
        yield made
    finally:
        made.run("down", "--purge", expect=None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the rack."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.timeout(900))
