"""Whole files, read, validated, replaced by rename; and folders."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shlex
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .command import reason, run
from .machine import DirectoryState, FileState, HostError
from .wanted import File


class Files:
    """Implements `machine.Files`."""

    def read(self, path: str) -> FileState | None:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise HostError(f"{path}: not a regular file; a person must look at it, Pinion replaces files only")
        content = Path(path).read_bytes().decode("utf-8", "surrogateescape")
        return FileState(content, _user(status.st_uid), _group(status.st_gid), stat.S_IMODE(status.st_mode))

    def validate(self, file: File) -> str | None:
        if file.validate_command is None:
            return None
        with tempfile.NamedTemporaryFile(prefix="pinion-candidate-", dir="/run") as candidate:
            candidate.write(file.content.encode("utf-8", "surrogateescape"))
            candidate.flush()
            command = file.validate_command.replace("%s", shlex.quote(candidate.name))
            done = run(["/bin/sh", "-c", command], check=False)
        return reason(done) if done.returncode != 0 else None

    def put(self, path: str, state: FileState) -> None:
        owner, group = _ids(path, state.owner, state.group)
        try:
            replace(Path(path), state.content.encode("utf-8", "surrogateescape"), state.mode, owner, group)
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error

    def remove(self, path: str) -> None:
        if Path(path).parent.is_dir():
            Path(path).unlink(missing_ok=True)
            _sync(Path(path).parent)

    def sweep(self, paths: Iterable[str]) -> None:
        for path in paths:
            for left in temporaries(Path(path)):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    left.unlink()

    def read_directory(self, path: str) -> DirectoryState | None:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISDIR(status.st_mode):
            raise HostError(f"{path}: not a folder; a person must look at it")
        return DirectoryState(_user(status.st_uid), _group(status.st_gid), stat.S_IMODE(status.st_mode))

    def put_directory(self, path: str, state: DirectoryState) -> None:
        owner, group = _ids(path, state.owner, state.group)
        try:
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.fchown(descriptor, owner, group)
                os.fchmod(descriptor, state.mode)
            finally:
                os.close(descriptor)
            _sync(Path(path).parent)
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error

    def remove_directory(self, path: str) -> str | None:
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            return None
        except OSError as error:
            return str(error.strerror)
        return None


def _ids(path: str, owner: str, group: str) -> tuple[int, int]:
    try:
        return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise HostError(f"{path}: {owner}:{group}: {error.args[0]}") from error


def temporaries(path: Path) -> tuple[Path, Path]:
    """What is to be *path*, and what was, on the way there: beside it, with a dot first and no suffix, so no ``*.conf`` folder reads it."""
    return path.with_name(f".{path.name}.pinion-new"), path.with_name(f".{path.name}.pinion-old")


def replace(path: Path, content: bytes, mode: int, owner: int = 0, group: int = 0) -> None:
    """Replace *path* in one rename: after a crash or a power cut the old or the new file is there, whole. Missing folders are made, 0755.

    A crash may leave the temporary file; the next run sweeps it away.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    temporary, _ = temporaries(path)
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchown(file.fileno(), owner, group)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
