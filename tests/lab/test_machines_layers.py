"""The cache of layers: built once, whole or not at all, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pinion.lab.errors import LabError
from pinion.lab.layers import BASE, Bind, LayerRecipe, LayerStore
from pinion.lab.state import cache_root

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")]

#: Waits for a sign from outside, so that a test can stop a build in the middle; leaves a process behind, as careless scripts do.
SCRIPT = """
echo started >>/gate/log
setsid sleep 987654 &
while [ ! -e /gate/open ]; do sleep 0.05; done
rm /usr/bin/curl
id -u pinion >/etc/built
"""


@dataclass(frozen=True)
class Workshop:
    """A cache of its own that shares the base layer of the machine's cache."""

    cache: Path
    gate: Path

    @property
    def recipe(self) -> LayerRecipe:
        return LayerRecipe(
            "gated",
            BASE,
            files={"/etc/given": "given"},
            script=SCRIPT,
            binds=(Bind(self.gate, "/gate", read_only=False),),
        )

    @property
    def store(self) -> LayerStore:
        return LayerStore(self.cache)

    def log(self) -> list[str]:
        path = self.gate / "log"
        return path.read_text().splitlines() if path.exists() else []

    def traces(self) -> list[str]:
        """Processes of a build, and mounts below the cache."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "sleep 987654" in line or f"TARGET={self.cache}" in environment:
                found.append(line)
        found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.cache) in line]
        return found


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    LayerStore().ensure(BASE)
    made = Workshop(tmp_path / "cache", tmp_path / "gate")
    (made.cache / "layers").mkdir(parents=True)
    made.gate.mkdir()
    (made.cache / "layers" / BASE.folder).symlink_to(cache_root() / "layers" / BASE.folder)
    yield made
    (made.gate / "open").touch()


def wait_for(condition: object, what: str, seconds: float = 30) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def check_whole(workshop: Workshop) -> None:
    top, below = workshop.store.lower(workshop.recipe)
    assert (top / "etc/built").read_text() == "1000\n"
    assert (top / "etc/given").read_text() == "given"
    # what the script removed is removed from the stack: an overlay's whiteout
    assert (below / "usr/bin/curl").is_file()
    assert (top / "usr/bin/curl").is_char_device()
    # nothing that only helped to build stays
    assert not (top / "gate").exists()
    assert not (top / "run/pinion").exists()
    assert not (top / "usr/sbin/policy-rc.d").exists()
    assert [entry.name for entry in (top / "etc").iterdir() if entry.name == "resolv.conf"] == []
    assert workshop.traces() == []


def test_a_build_killed_in_the_middle_leaves_nothing_and_is_done_again(workshop: Workshop) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom pinion.lab.layers import *\nsys.path.insert(0, 'tests')\n"
        "from lab.test_machines_layers import Workshop\n"
        f"w = Workshop(Path({str(workshop.cache)!r}), Path({str(workshop.gate)!r}))\nw.store.ensure(w.recipe)\n"
    )
    root = Path(__file__).parents[2]
    builder = subprocess.Popen([sys.executable, "-c", program], cwd=root)
    wait_for(lambda: workshop.log() == ["started"], "the build runs")
    assert workshop.traces(), "the probe must see a running build"
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    wait_for(lambda: workshop.traces() == [], "the builder's processes and mounts end with it")
    assert not workshop.store.present(workshop.recipe)
    (workshop.gate / "open").touch()
    workshop.store.ensure(workshop.recipe)
    assert workshop.log() == ["started", "started"]
    check_whole(workshop)


def test_many_ask_and_one_builds(workshop: Workshop) -> None:
    threads = [threading.Thread(target=LayerStore(workshop.cache).ensure, args=(workshop.recipe,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: workshop.log() == ["started"], "the build runs")
    (workshop.gate / "open").touch()
    for thread in threads:
        thread.join(timeout=60)
    assert workshop.log() == ["started"]
    check_whole(workshop)


def test_a_layer_that_was_damaged_is_built_again(workshop: Workshop) -> None:
    (workshop.gate / "open").touch()
    workshop.store.ensure(workshop.recipe)
    folder = workshop.store.folder(workshop.recipe)
    (folder / "stamp.json").write_text('{"key": "cut sho')
    workshop.store.ensure(workshop.recipe)
    assert workshop.log() == ["started", "started"]
    check_whole(workshop)


def test_a_failed_build_tells_why_and_leaves_no_layer(workshop: Workshop) -> None:
    recipe = LayerRecipe("failing", BASE, script="echo the disk is on fire\nfalse\necho never\n")
    with pytest.raises(LabError, match=r"layer failing: build failed \(exit 1\)[\s\S]*the disk is on fire") as told:
        workshop.store.ensure(recipe)
    assert "never" not in str(told.value)
    assert not workshop.store.folder(recipe).exists()
    assert workshop.traces() == []


def test_packages_are_installed_without_starting_anything(workshop: Workshop) -> None:
    recipe = LayerRecipe("small", BASE, packages=("tree",), script="tree --version >/etc/seen")
    top, _ = workshop.store.ensure(recipe)
    assert (top / "usr/bin/tree").is_file()
    assert (top / "etc/seen").read_text().startswith("tree v")
    assert not (top / "etc/apt/apt.conf.d/99build").exists()
    assert not list((top / "var/cache/apt/archives").glob("*.deb"))
