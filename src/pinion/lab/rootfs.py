"""Files inside a machine's root, written from outside: by rename, and never through a link that leads out of the root."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path, PurePosixPath

from pinion.lab.errors import LabError

#: As many as the kernel follows (path_resolution(7)).
_MAX_LINKS = 40


def inside(root: Path, path: str) -> Path:
    """Where *path* of the machine lies on this machine, its symbolic links followed as the machine itself would.

    The last component is not followed, so that replacing it replaces a link and not its target. `LabError` for a relative path or a loop.
    """
    if not path.startswith("/"):
        raise LabError(f"{path}: a path in a machine starts with /")
    pending = list(reversed(PurePosixPath(path).parts[1:]))
    done: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        if pending and here.is_symlink():
            links += 1
            if links > _MAX_LINKS:
                raise LabError(f"{path}: too many symbolic links under {root}")
            target = PurePosixPath(here.readlink())
            if target.is_absolute():
                done = []
            pending.extend(reversed([step for step in target.parts if step != "/"]))
            continue
        done.append(part)
    return root.joinpath(*done)


def write(root: Path, path: str, content: str | bytes, mode: int = 0o644, owner: int = 0, group: int = 0) -> bool:
    """Replace file *path* of the machine; whether that changed content, mode or owner. Missing folders are made, root's, 0755."""
    target = inside(root, path)
    data = content.encode() if isinstance(content, str) else content
    with contextlib.suppress(OSError):
        known = target.lstat()
        same = (known.st_mode & 0o7777, known.st_uid, known.st_gid) == (mode, owner, group)
        if same and not target.is_symlink() and target.read_bytes() == data:
            return False
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchown(stream.fileno(), owner, group)
            os.fchmod(stream.fileno(), mode)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    return True


def account(root: Path, name: str) -> tuple[int, int]:
    """User and group number of account *name* in the machine; `LabError` when it has none."""
    for line in inside(root, "/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    raise LabError(f"{root}: no account {name} in its /etc/passwd")
