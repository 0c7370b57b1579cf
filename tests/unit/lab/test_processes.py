"""Launched processes: recorded before they start, never confused with another, ended."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pinion.lab.errors import LabError
from pinion.lab.processes import Recorded, boot_id, end, launch, run, start_time
from pinion.lab.state import lock


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Recorded]:
    process = launch(["sleep", "60"], record=tmp_path / "p.json", log=tmp_path / "log")
    yield process
    if process.alive():
        end(process)


def wait_for_program(process: Recorded, name: str) -> None:
    deadline = time.monotonic() + 5
    while Path(f"/proc/{process.pid}/comm").read_text().strip() != name:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_record_is_the_program(sleeper: Recorded, tmp_path: Path) -> None:
    assert Recorded.read(tmp_path / "p.json") == sleeper
    wait_for_program(sleeper, "sleep")
    assert sleeper.alive()
    assert 0 <= sleeper.age() < 60
    assert os.getsid(sleeper.pid) != os.getsid(0)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_it_is_nobodys_zombie(sleeper: Recorded) -> None:
    end(sleeper)
    assert not sleeper.alive()
    assert start_time(sleeper.pid) is None


def test_ended_gently_or_not(tmp_path: Path) -> None:
    deaf = launch(
        [
            sys.executable,
            "-c",
            "import signal,time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
        ],
        record=tmp_path / "deaf.json",
        log=tmp_path / "deaf.log",
    )
    deadline = time.monotonic() + 10
    while "deaf" not in (tmp_path / "deaf.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert end(deaf, patience=0.2) is False
    assert not deaf.alive()


def test_a_reused_pid_is_never_signalled(sleeper: Recorded) -> None:
    other_start = Recorded(sleeper.pid, sleeper.start - 1, sleeper.boot)
    other_boot = Recorded(sleeper.pid, sleeper.start, "00000000-0000-0000-0000-000000000000")
    for stranger in (other_start, other_boot):
        assert not stranger.alive()
        stranger.signal(signal.SIGKILL)
        assert stranger.wait(0.0) is True
    assert sleeper.alive()


def test_broken_records_read_as_none(tmp_path: Path) -> None:
    record = tmp_path / "r.json"
    assert Recorded.read(record) is None
    record.write_text('{"pid": 1')
    assert Recorded.read(record) is None
    record.write_text(json.dumps({"pid": "1", "start": 2, "boot": "x"}))
    assert Recorded.read(record) is None


def test_myself(tmp_path: Path) -> None:
    me = Recorded.myself()
    assert (me.pid, me.boot) == (os.getpid(), boot_id())
    assert me.alive()
    me.write(tmp_path / "me.json")
    assert Recorded.read(tmp_path / "me.json") == me


def test_the_lock_is_let_go_by_the_program_but_held_while_it_starts(tmp_path: Path) -> None:
    with lock(tmp_path / "lock", timeout=1) as held:
        process = launch(["sleep", "60"], record=tmp_path / "p.json", log=tmp_path / "log", held=held)
    try:
        # the launcher closes its copy before it becomes the program
        wait_for_program(process, "sleep")
        with lock(tmp_path / "lock", timeout=1):
            pass
    finally:
        end(process)


def test_a_program_that_is_missing_says_so_in_the_log(tmp_path: Path) -> None:
    process = launch(["/no/such/program"], record=tmp_path / "p.json", log=tmp_path / "log")
    assert process.wait(5)
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_run_tells_what_failed() -> None:
    with pytest.raises(LabError, match=r"exit 3: broken thing"):
        run(["sh", "-c", "echo broken thing >&2; exit 3"])
    with pytest.raises(LabError, match="no end after"):
        run(["sleep", "5"], timeout=0.1)
    with pytest.raises(LabError, match="not installed; apt-get install"):
        run(["pinion-no-such-program"])
    assert run(["cat"], input="text").stdout == "text"
    assert run(["false"], check=False).returncode == 1


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    time.sleep(0.2)
    assert start_time(child.pid) is None
    child.wait()


def test_one_that_asks_for_it_is_started_again_under_a_record_of_its_own(tmp_path: Path) -> None:
    record, count = tmp_path / "p.json", tmp_path / "count"
    script = f"echo >>{count}; [ $(wc -l <{count}) -lt 3 ] && exit 133; exec sleep 60"
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        first = launch(["bash", "-c", script], record=record, log=tmp_path / "log", again=133, held=file.fileno())
    deadline = time.monotonic() + 20
    while (
        not count.exists()
        or count.read_text().count("\n") < 3
        or (third := Recorded.read(record)) is None
        or not third.alive()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert third.pid != first.pid
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds on to it
    parent = psutil.Process(third.pid).ppid()
    third.signal(signal.SIGKILL)
    assert third.wait(10)
    psutil.wait_procs([psutil.Process(parent)] if psutil.pid_exists(parent) else [], timeout=10)
    assert not psutil.pid_exists(parent), "another exit code ends it"
