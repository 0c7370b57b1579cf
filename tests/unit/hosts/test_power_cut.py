"""The power goes at any step of a run that places a unit and a key: never half of one, and the next run ends where this one would have."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from doubles.hosts import MemoryHost
from power_cut import cut
from thoroughness import points

from pinion.drivers.hosts.onhost import engine, notes
from pinion.drivers.hosts.onhost.files import Files
from pinion.drivers.hosts.onhost.machine import Machine
from pinion.drivers.hosts.onhost.notes import FileJournals, FileVault, RunBoots
from pinion.drivers.hosts.onhost.wanted import Concern, Directory, File


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's disk with an old key, and the program's notes on it."""
    folder = tmp_path / "disk"
    monkeypatch.setattr(notes, "STATE", folder / "var/lib/pinion")
    monkeypatch.setattr(notes, "BOOT", folder / "run/needs-boot.json")
    key = folder / "etc/edge/key"
    key.parent.mkdir(parents=True)
    key.write_text("old key\n")
    key.chmod(0o600)
    return folder


def machine() -> Machine:
    """Real files, notes and secrets; the rest in memory, so that it is gone with the power."""
    return replace(MemoryHost().machine(), files=Files(), journals=FileJournals(), vault=FileVault(), boots=RunBoots())


def edge(disk: Path) -> Concern:
    def file(path: str, content: str, mode: int, *, secret: bool = False) -> File:
        return File(f"{disk}/{path}", "root", "root", mode, content, (), None, confirm=False, secret=secret)

    unit = file("etc/systemd/system/edge.service", "[Service]\nExecStart=/bin/true\n", 0o644)
    key = file("etc/edge/key", "new key\n", 0o600, secret=True)
    folder = Directory(f"{disk}/var/edge", "root", "root", 0o750)
    return Concern(name="edge", directories=(folder,), files=(unit, key))


def converge(*concerns: Concern, name: str = "run-1") -> engine.Report:
    return engine.converge(machine(), concerns, wait=0, who="test", whole=True, name=name)


def seen(disk: Path) -> dict[str, tuple[int, str]]:
    """Files with mode and content, but for the program's own."""
    return {
        str(path.relative_to(disk)): (path.stat().st_mode & 0o777, path.read_text())
        for path in disk.rglob("*")
        if path.is_file() and not path.is_relative_to(notes.STATE) and not path.is_relative_to(notes.BOOT.parent)
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="files of root need root")
def test_a_unit_and_a_key_are_whole_after_a_power_cut_at_any_step(disk: Path, tmp_path: Path) -> None:
    """Placed, cut, placed again; taken away, cut, taken away: each time what is used is the old one or the new one."""
    before = seen(disk)
    converge(edge(disk))
    after = seen(disk)
    assert after.keys() > before.keys()
    converge()
    assert seen(disk) == before
    for target, here, there in ((edge(disk),), before, after), ((), after, before):
        at = 0
        while cut(lambda wanted=target: converge(*wanted), disk, at, tmp_path):  # type: ignore[misc]
            left = seen(disk)
            for path, found in left.items():
                if not path.endswith(".pinion-new"):
                    assert found in {here.get(path), there.get(path)}, f"cut at {at}: {path}"
            converge(*target, name="run-2")
            assert seen(disk) == there, f"cut at {at}"
            assert list(disk.rglob(".*.pinion-*")) == [], f"cut at {at}: nothing half written is left"
            assert converge(*target).changes == ()
            converge(*(() if target else (edge(disk),)))
            assert seen(disk) == here, f"cut at {at}, and all of it back"
            at += points(2, 1)
        assert at > 25, "steps were counted"
        assert seen(disk) == there
