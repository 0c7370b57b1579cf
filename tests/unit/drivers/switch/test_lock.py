"""One run at a time on a switch, and the name of a lock folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pinion.drivers.switch.errors import SwitchBusyError
from pinion.drivers.switch.lock import locked, owner

HOLD = """
import sys, time
from pathlib import Path
from pinion.drivers.switch.lock import locked
with locked(Path(sys.argv[1]), "192.0.2.1", 22, "tor-1", 0):
    print("held", flush=True)
    time.sleep(60)
"""


def _holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    try:
        with (
            pytest.raises(SwitchBusyError, match=rf"process {holder.pid}\b"),
            locked(tmp_path, "192.0.2.1", 22, "tor-1", 0.2),
        ):
            pytest.fail("held twice")
        with locked(tmp_path, "192.0.2.1", 2222, "tor-2", 0):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    holder = _holder(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with locked(tmp_path, "192.0.2.1", 22, "tor-1", 1):
        pass


def test_a_waiting_run_goes_on_when_the_first_ends(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:

        def second() -> bool:
            with locked(tmp_path, "192.0.2.1", 22, "tor-1", 20):
                return True

        with locked(tmp_path, "192.0.2.1", 22, "tor-1", 0):
            waiting = pool.submit(second)
            assert not waiting.done()
        assert waiting.result(timeout=20)


def test_an_owner_is_made_once_however_many_ask(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    with ThreadPoolExecutor(8) as pool:
        owners = set(pool.map(lambda _: owner(folder), range(40)))
    assert len(owners) == 1
    assert re.fullmatch(r"[0-9a-f]{8}", owners.pop())
    assert [path.name for path in folder.iterdir()] == ["owner"]


def test_a_half_written_owner_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "owner").write_text("12")
    assert re.fullmatch(r"[0-9a-f]{8}", owner(tmp_path))
    assert owner(tmp_path) == owner(tmp_path)


def test_folders_have_different_owners(tmp_path: Path) -> None:
    assert owner(tmp_path / "a") != owner(tmp_path / "b")
