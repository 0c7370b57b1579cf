"""The undo that a host makes by itself, while a run is still at work: it waits for that one, and then does what nobody has confirmed.

The real guard and its shell script, in a mount namespace with a /run and a /var/lib/pinion of its own; systemd is a stand-in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from unit.hosts.sites import REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from pinion.drivers.hosts.onhost.guard import LOCK, SystemdGuard
from pinion.drivers.hosts.onhost.machine import FileState
from pinion.drivers.hosts.onhost.notes import STATE

guard, file = SystemdGuard(), Path("/run/sshd.conf")
STATE.mkdir(exist_ok=True)
file.write_text("old\\n")
before = {str(file): FileState("old\\n", "root", "root", 0o644)}

def waits(process):
    "Whether the undo stands before the lock; it has to come there first."
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
        if any(str(process.pid) in words or child(process.pid) in words for words in held):
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.05)
    return False

def child(pid):
    "The flock(1) that the shell has started."
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()
"""


def run(tmp_path: Path, program: str) -> None:
    """Run *program*."""
    (tmp_path / "bin").mkdir()
    for name in ("systemctl", "systemd-run"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho "{name} $*" >>/run/systemd-was-told\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM + program)
    script = "mount -t tmpfs none /run && mkdir -p /var/lib/pinion /etc/systemd/system"
    script += " && mount -t tmpfs none /var/lib/pinion && mount -t tmpfs none /etc/systemd/system"
    script += " && mkdir /etc/systemd/system/sysinit.target.wants"
    script += f" && for each in systemctl systemd-run; do mount --bind {tmp_path}/bin/$each /usr/bin/$each; done"
    script += f" && exec {sys.executable} program.py"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_waits_for_a_run_that_holds_the_lock_and_then_takes_back(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
with guard.lock(5, "a run"):
    guard.arm("access", before, ["ssh.service"], 120)
    assert "--on-active=120" in Path("/run/systemd-was-told").read_text()
    file.write_text("new\\n")
    # the two minutes are over, and the run is still at work
    undo = subprocess.Popen([str(STATE / "guard/access/undo")])
    assert waits(undo)
    assert file.read_text() == "new\\n"
    assert guard.armed("access")
assert undo.wait(30) == 0
assert file.read_text() == "old\\n"
assert guard.undone("access")
assert not guard.armed("access")
assert "systemctl try-reload-or-restart ssh.service" in Path("/run/systemd-was-told").read_text()
""",
    )


def test_what_was_confirmed_while_it_waited_stays(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
with guard.lock(5, "a run"):
    guard.arm("access", before, ["ssh.service"], 120)
    file.write_text("new\\n")
    undo = subprocess.Popen([str(STATE / "guard/access/undo")])
    assert waits(undo)
    assert guard.disarm("access")
assert undo.wait(30) == 0
assert file.read_text() == "new\\n"
assert not guard.undone("access")
""",
    )


def test_the_lock_of_a_run_that_was_killed_holds_nobody_up(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
holds = "import sys, time; from pinion.drivers.hosts.onhost.guard import SystemdGuard\\n"
holds += "with SystemdGuard().lock(5, 'x'): print('held', flush=True); time.sleep(600)"
other = subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True)
assert other.stdout.readline() == "held\\n"
guard.arm("access", before, [], 120)
file.write_text("new\\n")
undo = subprocess.Popen([str(STATE / "guard/access/undo")])
found = waits(undo)
other.kill()
assert found
assert undo.wait(30) == 0
assert file.read_text() == "old\\n"
""",
    )
