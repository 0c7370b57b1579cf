"""A power cut at a chosen moment of a program: it ends there, and of what it wrote and did not sync nothing is left.

A kill leaves what the kernel holds; a cut loses it. The worst of it is what happens here: names are on the disk as they were last given,
and every file that was written to since is empty, unless fsync(2) was called on it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: How a process ends whose power is cut.
CUT = 137
#: Events of the interpreter's audit log that change something, beside opening a file to write.
_EVENTS = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.mkdir",
    "os.chmod",
    "os.chown",
    "os.truncate",
    "shutil.rmtree",
    "socket.connect",
    "subprocess.Popen",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def install(at: int, own: str, synced: str) -> None:
    """From now on, end this process at its step number *at* (from 0) of those that change something; opening counts below *own* alone.

    The file *synced* then says what is safe.
    """
    left, safe, fsync = at, set[int](), os.fsync

    def remembered(descriptor: int) -> None:
        fsync(descriptor)
        safe.add(os.fstat(descriptor).st_ino)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        opened = event == "open" and str(arguments[0]).startswith(own) and (arguments[2] or 0) & _WRITING
        if event in _EVENTS or opened:
            left -= 1
            if left == -1:
                Path(synced).write_text(json.dumps(sorted(safe)))
                os._exit(CUT)

    os.fsync = remembered
    sys.addaudithook(hook)


def marks(folder: Path) -> dict[int, tuple[int, int]]:
    """What tells for each file below *folder* whether it was written to: its length and time, by its number."""
    found = (path.lstat() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {status.st_ino: (status.st_size, status.st_mtime_ns) for status in found}


def lose(folder: Path, before: dict[int, tuple[int, int]], synced: Path) -> int:
    """Empty the files below *folder* that were written to since *before* and are not safe; how many those were."""
    safe, lost = {*json.loads(synced.read_text())}, 0
    for path in [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]:
        status = path.stat()
        if status.st_ino not in safe and before.get(status.st_ino) != (status.st_size, status.st_mtime_ns):
            os.truncate(path, 0)
            lost += 1
    return lost


def cut(work: Callable[[], object], folder: Path, at: int, scratch: Path) -> bool:
    """Do *work*, which writes below *folder*, in a process of its own, and cut it at step *at*; whether it came that far.

    *scratch* is a folder elsewhere. No thread may run beside.
    """
    before, synced = marks(folder), scratch / "synced"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            install(at, str(folder), str(synced))
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, CUT}, f"it failed at step {at}: {code}"
    if code == CUT:
        lose(folder, before, synced)
    return code == CUT
