"""State on disk: private, whole, one writer."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pinion.lab.errors import LabError
from pinion.lab.state import InstanceState, lock, read_json, write_file, write_json


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstanceState:
    monkeypatch.setenv("PINION_STATE", str(tmp_path / "state"))
    made = InstanceState.of("t-unit")
    made.make()
    return made


@pytest.mark.parametrize("name", ["", "Lab", "a_b", "../x", "-a", "a-", "a" * 33, "a b", "a\n"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="choose another"):
        InstanceState.of(name)


def test_a_state_folder_that_overlays_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINION_STATE", "/tmp/a:b")
    with pytest.raises(LabError, match="PINION_STATE"):
        InstanceState.of("lab")


def test_folders_are_private(store: InstanceState) -> None:
    assert {folder.stat().st_mode & 0o777 for folder in (store.root, store.machines, store.ssh, store.secrets)} == {
        0o700
    }


def test_write_says_whether_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_file(path, "one") is True
    assert write_file(path, "one") is False
    assert write_file(path, "one", 0o644) is True
    assert write_file(path, "two", 0o644) is True
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o644)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_cut_short_reads_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read_json(path) == {}
    write_json(path, {"a": 1})
    path.write_text(path.read_text()[:5])
    assert read_json(path) == {}
    path.write_text("[1]")
    assert read_json(path) == {}


def test_a_secret_is_made_once_by_many_at_once(store: InstanceState) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(store.secret("db").read_text())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found[0]) >= 40
    assert (store.secrets / "db").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in store.secrets.iterdir()] == ["db"]


def test_the_lock_keeps_another_process_out_and_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = "import sys,time\nfrom pathlib import Path\nfrom pinion.lab.state import lock\n"
    program += "with lock(Path(sys.argv[1]), timeout=1):\n    print('held', flush=True)\n    time.sleep(60)\n"
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LabError, match="still locked"), lock(path, timeout=0.3):
            pytest.fail("two hold one lock")
        holder.kill()
        holder.wait()
        with lock(path, timeout=5):
            pass
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()
