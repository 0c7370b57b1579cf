"""The folder that a tree is written to. At any moment it holds the former tree or the new one, whole.

Invariants:

* The new tree is made beside the folder and then takes its place in one system call, so a killed run leaves the one or the other; what it
  left beside is cleared by the next run.
* The tree's record (`RECORD`) names its files. Whatever else lies in the folder is somebody's, and then nothing is written.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pinion.render.gitops.tree import Tree

#: The file of a tree that says whose it is and which files belong to it.
RECORD: Final = ".pinion-tree.json"
#: From linux/fcntl.h and linux/fs.h: paths are from the working folder; both names change places.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class NotOursError(Exception):
    """The folder holds something that no run of ours wrote: which, and what to do."""


def differing(folder: Path, tree: Tree) -> dict[str, str]:
    """The paths in which *folder* is not *tree*, each with ``missing``, ``changed`` or ``unknown`` (nothing of the tree)."""
    held = {str(path.relative_to(folder)): path for path in _files(folder)}
    wanted = _whole(tree)
    found = dict.fromkeys(held.keys() - wanted.keys(), "unknown")
    found |= dict.fromkeys(wanted.keys() - held.keys(), "missing")
    found |= {path: "changed" for path in wanted.keys() & held.keys() if not _is(held[path], wanted[path])}
    return dict(sorted(found.items()))


def write(folder: Path, tree: Tree) -> dict[str, str]:
    """Have *folder* hold *tree*; what differed before. Raises `NotOursError` before anything is touched, and `OSError`."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise NotOursError(f"{folder} is no folder; name one that is, or one that is not there yet")
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        _refuse_others(folder, tree)
        differs = differing(folder, tree)
        staged = folder.with_name(f".{folder.name}.pinion-staged")
        if staged.exists():
            shutil.rmtree(staged)
        if differs:
            for path, content in _whole(tree).items():
                target = staged / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            _take_place(staged, folder)
        return differs


def _whole(tree: Tree) -> dict[str, bytes]:
    """The files of *tree*, its record among them."""
    files = {path: hashlib.sha256(content).hexdigest() for path, content in tree.files.items()}
    record = {"site": tree.site, "tool": tree.tool.value, "files": files}
    return {**tree.files, RECORD: (json.dumps(record, indent=1, sort_keys=True) + "\n").encode()}


def _files(folder: Path) -> Iterator[Path]:
    """Everything in *folder* that is no folder; a link is one thing, wherever it leads."""
    for inside, folders, names in os.walk(folder):
        yield from (
            Path(inside, name) for name in [*names, *(name for name in folders if Path(inside, name).is_symlink())]
        )


def _is(path: Path, content: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content


def _refuse_others(folder: Path, tree: Tree) -> None:
    """Raise `NotOursError` when *folder* is the tree of another site, or holds files that its record does not name."""
    record = _record(folder)
    if record is not None and record["site"] != tree.site:
        raise NotOursError(f"{folder} holds the tree of site {record['site']}; name another folder for {tree.site}")
    known = {RECORD, *(record["files"] if record is not None else ())}
    others = sorted(
        str(path.relative_to(folder)) for path in _files(folder) if str(path.relative_to(folder)) not in known
    )
    if others:
        raise NotOursError(
            f"{folder} holds what is not of a tree that Pinion wrote: {', '.join(others)}. "
            "Move it elsewhere, or name a folder of the tree's own; nothing was written"
        )


def _record(folder: Path) -> Mapping[str, Any] | None:
    """The record in *folder*, None when there is none; `NotOursError` when it cannot be read."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found["site"], str) or not isinstance(found["files"], dict):
            raise TypeError
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise NotOursError(
            f"{path} cannot be read as the record of a tree (a merge that was not finished?); take it from git again, or delete {folder}"
        ) from None
    return dict(found)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One run at a time writes trees below *folder*; the lock ends with the process."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _take_place(staged: Path, folder: Path) -> None:
    """Have *staged* be *folder* in one step, and remove what was there. Raises `OSError`."""
    if not folder.exists():
        staged.rename(folder)
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_AT_FDCWD, bytes(staged), _AT_FDCWD, bytes(folder), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        shutil.rmtree(staged)
        if number == errno.EINVAL:
            raise OSError(
                number,
                "this file system cannot put a folder in another's place in one step; delete it first",
                str(folder),
            )
        raise OSError(number, os.strerror(number), str(folder))
    shutil.rmtree(staged)
