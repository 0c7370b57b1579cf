"""Writing an image to a card: what the device is, whether it may be written, the write itself, and the proof by reading back.

Invariants:

* Nothing is written to a device that any rule of `refusals` speaks against; the rules see what lsblk(8) says at that moment, and the
  kernel's exclusive open is a second guard: it fails for whatever is mounted or in use.
* The first mebibytes, with the partition table, are zeroed first and written last: a card that was not written to its end does not start.
* "Written" means read back from the device, past every cache, with the digest of the image.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pinion.image.errors import ImageError
from pinion.image.layout import MIB

BLOCK = 4 * MIB
#: ioctl that drops the kernel's buffers of a block device (linux/fs.h).
_BLKFLSBUF = 0x1261
#: Where a running system has its own files (hier(7)).
SYSTEM_MOUNTS = ("/", "/boot", "/boot/efi", "/boot/firmware", "/usr", "/var", "/home", "[SWAP]")
_COLUMNS = "PATH,TYPE,MODEL,SERIAL,SIZE,RO,RM,TRAN,LABEL,FSTYPE,MOUNTPOINTS"


@dataclass(frozen=True, slots=True)
class Part:
    """Something on a device: a partition, or what is stacked on one. *mounts* are where it is mounted or used."""

    path: str
    kind: str
    size: int
    label: str
    filesystem: str
    mounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device is. *kind* is lsblk's (``disk``, ``part``, ``loop``, ``rom``, …); *size* in bytes; *serial* may be empty."""

    path: str
    kind: str
    model: str
    serial: str
    size: int
    read_only: bool
    removable: bool
    transport: str
    mounts: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """What a person types to say that this one is meant: the serial number, or the device's name where it has none."""
        return self.serial or Path(self.path).name

    def used(self) -> tuple[tuple[str, str], ...]:
        """Each mount: of what, where."""
        own = [(self.path, mount) for mount in self.mounts]
        return (*own, *((part.path, mount) for part in self.parts for mount in part.mounts))


def parse_facts(text: str) -> Facts:
    """The device in the answer of ``lsblk --json --bytes --tree`` for one device. Raises `ImageError`."""
    try:
        entry = json.loads(text)["blockdevices"][0]
        return Facts(
            path=entry["path"],
            kind=entry["type"],
            model=(entry.get("model") or "").strip(),
            serial=(entry.get("serial") or "").strip(),
            size=int(entry["size"]),
            read_only=bool(entry["ro"]),
            removable=bool(entry["rm"]),
            transport=entry.get("tran") or "",
            mounts=_mounts(entry),
            parts=tuple(_parts(entry)),
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ImageError(f"lsblk: not the answer that was asked for ({error!r})") from None


def _mounts(entry: dict[str, object]) -> tuple[str, ...]:
    listed = entry.get("mountpoints")
    return tuple(str(mount) for mount in listed if mount) if isinstance(listed, list) else ()


def _parts(entry: dict[str, object]) -> Iterator[Part]:
    children = entry.get("children")
    for child in children if isinstance(children, list) else []:
        yield Part(
            path=child["path"],
            kind=child["type"],
            size=int(child["size"]),
            label=child.get("label") or "",
            filesystem=child.get("fstype") or "",
            mounts=_mounts(child),
        )
        yield from _parts(child)


def refusals(facts: Facts, image: int) -> list[str]:
    """Every reason why an image of *image* bytes must not be written there; empty when there is none."""
    found = []
    if facts.kind == "part":
        found.append("it is a partition: name the whole disk")
    elif facts.kind not in {"disk", "loop"}:
        found.append(f"it is no disk but a {facts.kind}")
    for path, mount in facts.used():
        if mount in SYSTEM_MOUNTS:
            found.append(f"this system runs from it ({path} is {mount})")
        else:
            found.append(f"{path} is mounted at {mount}: unmount it first")
    stacked = [part.path for part in facts.parts if part.kind != "part"]
    if stacked:
        found.append(f"something is built on it: {', '.join(stacked)}")
    if facts.read_only:
        found.append("it is read-only: look for a lock switch")
    if facts.size < image:
        found.append(f"it is smaller ({facts.size} bytes) than the image ({image} bytes)")
    return found


def told(facts: Facts) -> list[str]:
    """What the device is, in lines for a person."""
    kind = " ".join(filter(None, ("removable" if facts.removable else "fixed", facts.transport, facts.kind)))
    lines = [
        f"device  {facts.path} ({kind}{', read-only' if facts.read_only else ''})",
        f"model   {facts.model or 'not told'}",
        f"serial  {facts.serial or 'none'}",
        f"size    {facts.size / 1e9:.1f} GB ({facts.size} bytes)",
    ]
    lines += [f"mounted at {mount}" for mount in facts.mounts]
    for part in facts.parts:
        used = f", mounted at {', '.join(part.mounts)}" if part.mounts else ""
        lines.append(
            f"  {part.path}  {part.size / 1e9:.1f} GB  {part.filesystem or 'no file system'} {part.label}{used}".rstrip()
        )
    if not facts.parts:
        lines.append("  no partitions")
    return lines


# --- devices ----------------------------------------------------------------------------------------------------------


class Card(Protocol):
    """Something that an image can be written to."""

    def facts(self) -> Facts:
        """What it is now. Raises `ImageError` when it is not there."""
        ...

    def open(self) -> None:
        """Take it for writing, exclusively. Raises `ImageError`."""
        ...

    def write(self, offset: int, data: bytes) -> None:
        """Write *data* at byte *offset*."""
        ...

    def settle(self) -> None:
        """Everything written is on the medium, and in no cache that `read` would answer from."""
        ...

    def read(self, length: int) -> Iterator[bytes]:
        """The first *length* bytes, from the medium."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class FileCard:
    """A regular file of fixed size that stands for a device."""

    def __init__(self, path: Path, facts: Facts | None = None) -> None:
        self._path = path
        self._facts = facts
        self._descriptor = -1

    def facts(self) -> Facts:
        if self._facts is not None:
            return self._facts
        try:
            size = self._path.stat().st_size
        except OSError as error:
            raise ImageError(f"{self._path}: {error.strerror}") from None
        writable = os.access(self._path, os.W_OK)
        return Facts(str(self._path), "disk", "regular file", "", size, not writable, False, "file", (), ())

    def open(self) -> None:
        self._descriptor = _opened(self._path, os.O_RDWR)

    def write(self, offset: int, data: bytes) -> None:
        if offset + len(data) > self.facts().size:
            raise ImageError(f"{self._path}: no space left at byte {offset}")
        _write_all(self._descriptor, data, offset)

    def settle(self) -> None:
        os.fsync(self._descriptor)
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, length: int) -> Iterator[bytes]:
        for offset in range(0, length, BLOCK):
            yield os.pread(self._descriptor, min(BLOCK, length - offset), offset)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class BlockCard:
    """A block device of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def facts(self) -> Facts:
        argv = ["lsblk", "--json", "--bytes", "--tree", "--output", _COLUMNS, str(self._path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImageError(f"{self._path}: {done.stderr.strip() or 'lsblk knows no such device'}")
        return parse_facts(done.stdout)

    def open(self) -> None:
        # O_EXCL on a block device: busy when it is mounted, swap, or part of a RAID or volume group (open(2))
        self._descriptor = _opened(self._path, os.O_RDWR | os.O_EXCL)

    def write(self, offset: int, data: bytes) -> None:
        _write_all(self._descriptor, data, offset)

    def settle(self) -> None:
        os.fsync(self._descriptor)
        fcntl.ioctl(self._descriptor, _BLKFLSBUF, 0)
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, length: int) -> Iterator[bytes]:
        """With O_DIRECT, so that the answer is the medium's and not the page cache's."""
        direct = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        try:
            # an anonymous mapping is aligned to pages, as O_DIRECT wants its buffer
            with mmap.mmap(-1, BLOCK) as buffer:
                for offset in range(0, length, BLOCK):
                    wanted = min(BLOCK, length - offset)
                    with memoryview(buffer) as view, view[:wanted] as part:
                        got = os.preadv(direct, [part], offset)
                        yield bytes(part[:got])
        finally:
            os.close(direct)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _opened(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise ImageError(f"{path}: cannot be written: {error.strerror}") from None


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        try:
            done = os.pwrite(descriptor, view, offset)
        except OSError as error:
            raise ImageError(f"write at byte {offset}: {error.strerror}; the card may be worn out") from None
        view, offset = view[done:], offset + done


def card(path: Path) -> Card:
    """The device *path*. Raises `ImageError` for anything that is no block device."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}; lsblk lists the devices that there are") from None
    if not stat.S_ISBLK(mode):
        raise ImageError(f"{path}: not a block device; lsblk lists the devices that there are")
    return BlockCard(path)


# --- the write --------------------------------------------------------------------------------------------------------


def write(image: Path, sha256: str, target: Card, seen: Facts, progress: Callable[[str, int, int], None]) -> None:
    """Write *image*, whose digest must be *sha256*, to *target*, which must still be what was *seen*, and prove it.

    *progress* gets what is being done, the bytes done and all bytes. Raises `ImageError`; then the card does not start.
    """
    size = image.stat().st_size
    now = target.facts()
    if (now.path, now.serial, now.size, now.model) != (seen.path, seen.serial, seen.size, seen.model):
        raise ImageError(f"{seen.path}: another device than a moment ago ({now.model} {now.serial}); begin again")
    if reasons := refusals(now, size):
        raise ImageError(f"{now.path}: {'; '.join(reasons)}")
    target.open()
    try:
        _put(image, sha256, size, target, progress)
        found = hashlib.sha256()
        done = 0
        for block in target.read(size):
            found.update(block)
            done += len(block)
            progress("reads back", done, size)
        if found.hexdigest() != sha256:
            target.write(0, bytes(BLOCK))
            target.settle()
            raise ImageError(
                f"{now.path}: what it gives back is not what was written (SHA-256 {found.hexdigest()}, expected {sha256}): "
                "the card is broken or not as large as it says; it was made unbootable"
            )
    finally:
        target.close()


def _put(image: Path, sha256: str, size: int, target: Card, progress: Callable[[str, int, int], None]) -> None:
    """Everything behind the first block, then that one: so that a cut leaves a card without a partition table."""
    found = hashlib.sha256()
    with image.open("rb") as stream:
        first = stream.read(BLOCK)
        found.update(first)
        target.write(0, bytes(len(first)))
        done = len(first)
        while block := stream.read(BLOCK):
            found.update(block)
            target.write(done, block)
            done += len(block)
            progress("writes", done, size)
    if found.hexdigest() != sha256:
        raise ImageError(
            f"{image}: it changed since it was made (its SHA-256 differs from its manifest); build it again"
        )
    target.settle()
    target.write(0, first)
    target.settle()
