"""Where a lab instance keeps its state, and how it is written: 0700 folders, 0600 files, replaced by rename.

Invariants: nobody but root reads the state of an instance; a file is either its old or its new content, never half of one; one process
at a time holds an instance's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.errors import LabError

#: Anything that `json` can write.
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

#: A name that is good in a path, a namespace and a cgroup at once.
_INSTANCE = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z")


def state_root() -> Path:
    """`$PINION_STATE`, default ``/var/lib/pinion``."""
    return Path(os.environ.get("PINION_STATE") or "/var/lib/pinion")


def cache_root() -> Path:
    """`$PINION_CACHE`, default ``/var/cache/pinion``."""
    return Path(os.environ.get("PINION_CACHE") or "/var/cache/pinion")


@dataclass(frozen=True)
class InstanceState:
    """The state folder of one instance. *name*: lower-case letters, digits and inner hyphens, at most 32."""

    name: str
    root: Path

    @classmethod
    def of(cls, name: str) -> InstanceState:
        """The state of instance *name* under `state_root()`; `LabError` when the name is no good."""
        if not _INSTANCE.match(name):
            raise LabError(
                f"instance {name!r}: a name has lower-case letters, digits and inner hyphens, at most 32; choose another"
            )
        root = state_root() / name
        if set(str(root)) & set(":,\\ \n\t"):
            raise LabError(
                f"state folder {root}: overlay mounts cannot take its name; set PINION_STATE to a path without ':' ',' or spaces"
            )
        return cls(name, root)

    def exists(self) -> bool:
        """Whether there is anything on disk for this instance."""
        return self.root.is_dir()

    def make(self) -> None:
        """Create the folder tree, 0700."""
        for folder in (self.root, self.machines, self.ssh, self.secrets, self.uplink):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)

    @property
    def machines(self) -> Path:
        return self.root / "machines"

    @property
    def ssh(self) -> Path:
        return self.root / "ssh"

    @property
    def authority(self) -> Path:
        return self.root / "authority"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def uplink(self) -> Path:
        return self.root / "uplink"

    @property
    def endpoints(self) -> Path:
        return self.root / "endpoints.json"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def record(self) -> Path:
        """What the instance was made from: site, plan."""
        return self.root / "instance.json"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def log(self) -> Path:
        return self.root / "lab.log"

    @property
    def busy(self) -> Path:
        """Who holds the lock: process record of a running ``up`` or ``down``."""
        return self.root / "busy.json"

    def machine(self, name: str) -> Path:
        """The folder of one machine."""
        return self.machines / name

    def machine_names(self) -> tuple[str, ...]:
        """Machines that have state, also those that the plan no longer names."""
        if not self.machines.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in self.machines.iterdir() if entry.is_dir()))

    def namespace(self, machine: str) -> str:
        """Name of the network namespace of *machine* (``oob`` is the out-of-band bridge's)."""
        return f"pin-{self.name}-{machine}"

    def secret(self, name: str, length: int = 32) -> Path:
        """A random password in a 0600 file, made once. *length* is the number of random bytes before URL-safe encoding."""
        return self.made_once(self.secrets / name, lambda: secrets.token_urlsafe(length))

    def made_once(self, path: Path, content: Callable[[], str]) -> Path:
        """*path*, written with *content* by the first who asks, whoever else asks at the same time."""
        if not path.exists():
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "w") as stream:
                    stream.write(content())
                # link, not rename: the loser keeps the winner's file
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(temporary)
            finally:
                Path(temporary).unlink()
        return path


def write_file(path: Path, content: str | bytes, mode: int = 0o600) -> bool:
    """Replace *path* by rename with *content*; return whether that changed it. The mode is set before the content is visible."""
    data = content.encode() if isinstance(content, str) else content
    with contextlib.suppress(OSError):
        if path.read_bytes() == data and path.stat().st_mode & 0o7777 == mode:
            return False
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    return True


def write_json(path: Path, value: Mapping[str, JsonValue]) -> bool:
    """`write_file` for JSON, sorted and indented."""
    return write_file(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, JsonValue]:
    """The object in *path*; empty when the file is missing, cut short or no object (a crash may have left it so)."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


@contextlib.contextmanager
def lock(path: Path, *, timeout: float, waiting: Callable[[float], None] | None = None) -> Iterator[int]:
    """Hold an exclusive lock on *path*, giving its descriptor; `LabError` after *timeout* seconds.

    *waiting* is called about once a second with the seconds waited. The kernel drops the lock when its holder dies.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    started = told = time.monotonic()
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now - started > timeout:
                    raise LabError(
                        f"{path}: still locked by another process after {timeout:.0f} s; wait for it or end it"
                    ) from None
                if waiting is not None and now - told >= 1:
                    told = now
                    waiting(now - started)
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)
