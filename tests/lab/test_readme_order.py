"""README's first commands, as shown and in the order shown: a rack comes up, tests run beside it in racks of their own, it goes down.

As on a reader's machine, but for the name of the site, so that a rack that runs here stays, and but for the number of tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented_commands import fences
from lab.small_rack import SmallRack, traces
from scenarios.rack import REPOSITORY, Rack, sweep, write_project

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="a rack in a box needs root"),
]

#: Before a process id: the names of our sites.
NAME = "readme-"
#: Of all tests, one that makes namespaces as everybody does (`ip netns add`), beside the rack that is up.
SOME = "tests/unit/hosts/test_firewall_rules.py -k what_a_flow_names"


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    """A project whose site is called like no other, of one Pi; nothing of it runs yet."""
    sweep(NAME)
    site = f"{NAME}{os.getpid()}"
    write_project(tmp_path, site, "10.79.", "numbers: 1-1")
    made = Rack(root=tmp_path, instance=site)
    stranger = f"stranger-{os.getpid()}"
    try:
        yield made
    finally:
        subprocess.run(["ip", "netns", "delete", stranger], check=False, capture_output=True)
        made.run("pinion", "lab", "down", "--instance", site, "--purge", check=False)
        shutil.rmtree(tmp_path, ignore_errors=True)


def make(rack: Rack, command: str) -> str:
    """Run *command*, a `make` of README's, for this rack; what it says."""
    site_file = rack.root / "inventories" / rack.instance / "site.yml"
    own = [f"SITE={site_file}", *([f"PYTEST={SOME}"] if command == "make test" else [])]
    # the tests that it runs are none of this run
    outside = {key: value for key, value in rack.environment().items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [*command.split(), *own], cwd=REPOSITORY, env=outside, capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def running(rack: Rack) -> set[str]:
    """The machines of the rack that run."""
    return {name for name in rack.store.machine_names() if rack.machine(name).process is not None}


def test_up_test_and_down_in_readmes_order(rack: Rack) -> None:
    shown = tuple(command for fence in fences() if fence.place == "machine" for command in fence.commands)
    assert shown == ("make up", "make test", "make down"), "that is what README is about"
    up, test, down = shown
    said = make(rack, up)
    assert "NetBox" in said
    assert running(rack) == {"mgmt-1", "nv-1", "pi-01", "tor-1"}
    assert " passed" in make(rack, test)
    assert running(rack) == {"mgmt-1", "nv-1", "pi-01", "tor-1"}, "beside the rack, which stays"
    stranger = f"stranger-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", stranger], check=True)
    make(rack, down)
    assert traces([SmallRack(rack.instance, rack.root)]) == []
    named = json.loads(subprocess.run(["ip", "-json", "netns"], check=True, capture_output=True, text=True).stdout)
    assert stranger in {entry["name"] for entry in named}
    make(rack, down)
