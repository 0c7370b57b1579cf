"""Image files: file systems made from folders without mounting anything, put together with a partition table. Same input, same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pinion.image.errors import ImageError
from pinion.image.layout import MIB, Layout, Partition, parse_table

_CHUNK = 4 * MIB
#: Seconds for one of the programs below.
_TIMEOUT = 900.0
#: Directory hashes of the root; any fixed value will do (mke2fs(8), -E hash_seed).
_HASH_SEED = "d5f1a3c0-9b7e-4c5b-8a52-0f6f1c2b3d4e"


def tool(argv: Sequence[str | Path], *, epoch: int = 0, text: str | None = None) -> str:
    """Run a program with every clock it may look at set to *epoch*; its standard output. Raises `ImageError`."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(epoch),
        # e2fsprogs before 1.47.1 knows this one only
        "E2FSPROGS_FAKE_TIME": str(epoch),
        "MTOOLS_SKIP_CHECK": "1",
    }
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise ImageError(
            f"{name}: not installed; tools/obtain.py debian --packages tools/image-packages.txt installs it"
        ) from None
    except subprocess.TimeoutExpired:
        raise ImageError(f"{name}: no end after {_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise ImageError(f"{name}: exit {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-1000:]}")
    return done.stdout


def identifier(*parts: str) -> str:
    """A UUID that follows from *parts* (version 8: RFC 9562, section 5.8)."""
    digest = bytearray(hashlib.sha256("\0".join(parts).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def disk_id(key: str) -> int:
    """The MBR signature of the image with this key; never 0."""
    return int(hashlib.sha256(f"disk {key}".encode()).hexdigest()[:8], 16) or 1


def digest(path: Path, length: int | None = None) -> str:
    """SHA-256 of a file, or of its first *length* bytes."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        left = length
        while block := stream.read(_CHUNK if left is None else min(_CHUNK, left)):
            found.update(block)
            left = None if left is None else left - len(block)
    return found.hexdigest()


def fat(target: Path, size: int, label: str, files: Mapping[str, bytes | Path], *, key: str, epoch: int) -> None:
    """Make a FAT file system of *size* bytes in *target* with *files* (name to content) in the order of their names."""
    target.unlink(missing_ok=True)
    # a seed holds secrets
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.truncate(descriptor, size)
    os.close(descriptor)
    serial = identifier("fat", key, label)[:8]
    kind = "32" if size >= 256 * MIB else "16"
    tool(["mkfs.fat", "--invariant", "-F", kind, "-n", label, "-i", serial, target], epoch=epoch)
    put(target, 0, files, epoch=epoch)


def put(image: Path, start: int, files: Mapping[str, bytes | Path], *, epoch: int) -> None:
    """Write *files* into the FAT file system that begins at byte *start* of *image*."""
    scratch = image.with_name(f".{image.name}.put")
    try:
        for name, content in sorted(files.items()):
            scratch.unlink(missing_ok=True)
            if isinstance(content, bytes):
                descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(content)
            else:
                shutil.copyfile(content, scratch)
            os.utime(scratch, (epoch, epoch))
            tool(["mcopy", "-o", "-m", "-i", f"{image}@@{start}", scratch, f"::{name}"], epoch=epoch)
    finally:
        scratch.unlink(missing_ok=True)


def take(image: Path, start: int, name: str) -> bytes:
    """The content of file *name* in the FAT file system that begins at byte *start* of *image*. Raises `ImageError`."""
    argv = ["mtype", "-i", f"{image}@@{start}", f"::{name}"]
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=_TIMEOUT, check=False, env={**os.environ, "MTOOLS_SKIP_CHECK": "1"}
        )
    except FileNotFoundError:
        raise ImageError(
            "mtype: not installed; tools/obtain.py debian --packages tools/image-packages.txt installs it"
        ) from None
    if done.returncode:
        raise ImageError(
            f"{image}: no {name} on the partition at {start}: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def ext4(target: Path, size: int, label: str, tree: Path, *, key: str, epoch: int) -> None:
    """Make an ext4 file system of *size* bytes in *target* from the folder *tree*; every time in it is at most *epoch*."""
    target.unlink(missing_ok=True)
    with target.open("xb") as stream:
        os.truncate(stream.fileno(), size)
    extended = f"hash_seed={_HASH_SEED},lazy_itable_init=0,lazy_journal_init=0,nodiscard,root_owner=0:0"
    argv: list[str | Path] = [
        "mke2fs",
        "-q",
        "-t",
        "ext4",
        "-b",
        "4096",
        "-L",
        label,
        "-U",
        identifier("ext4", key),
        "-E",
        extended,
    ]
    # orphan_file and metadata_csum_seed are unknown to older kernels and boot loaders
    argv += ["-O", "^metadata_csum_seed,^orphan_file", "-m", "1", "-d", tree, target]
    tool(argv, epoch=epoch)
    _settle_times(target, epoch)
    tool(["e2fsck", "-f", "-n", target], epoch=epoch)


def _settle_times(target: Path, epoch: int) -> None:
    """Set the times that mke2fs takes from the folder and nobody can choose there: change, access and creation."""
    commands = []
    for inode in used_inodes(tool(["dumpe2fs", target])):
        commands += [f"set_inode_field <{inode}> {field} @{epoch}" for field in ("ctime", "atime", "crtime")]
        commands += [f"set_inode_field <{inode}> {field}_extra 0" for field in ("ctime", "atime", "crtime")]
    script = target.with_name(f".{target.name}.debugfs")
    try:
        script.write_text("\n".join(commands) + "\n")
        tool(["debugfs", "-w", "-f", script, target], epoch=epoch)
    finally:
        script.unlink(missing_ok=True)


def used_inodes(described: str) -> list[int]:
    """The numbers of the inodes in use (2, and 11 and up) out of dumpe2fs(8)'s answer."""
    counted = re.search(r"^Inode count:\s+(\d+)$", described, re.MULTILINE)
    if counted is None:
        raise ImageError("dumpe2fs: no inode count in its answer")
    free: set[int] = set()
    for found in re.finditer(r"^  Free inodes: (.*)$", described, re.MULTILINE):
        for span in filter(None, found.group(1).split(", ")):
            first, _, last = span.partition("-")
            free.update(range(int(first), int(last or first) + 1))
    first_ordinary = 11
    return [2, *(number for number in range(first_ordinary, int(counted.group(1)) + 1) if number not in free)]


def assemble(target: Path, disk: Layout, parts: Mapping[str, Path]) -> None:
    """Put partition table and file systems (by partition name) together in *target*, with holes where they are zero."""
    target.unlink(missing_ok=True)
    with target.open("xb") as stream:
        os.truncate(stream.fileno(), disk.size)
    tool(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", target], text=disk.script())
    for name, path in parts.items():
        embed(target, disk[name], path)
    if (found := table(target)) != disk:
        raise ImageError(f"{target}: sfdisk made {found}, wanted {disk}")


def embed(target: Path, partition: Partition, content: Path) -> None:
    """Write *content* over *partition* of *target*; blocks of zeros become holes."""
    if content.stat().st_size != partition.size:
        raise ImageError(
            f"{content}: {content.stat().st_size} bytes for partition {partition.name} of {partition.size}"
        )
    zeros = bytes(MIB)
    with content.open("rb") as source, target.open("r+b") as stream:
        stream.seek(partition.start)
        while block := source.read(MIB):
            if block == zeros:
                _hole(stream.fileno(), stream.tell(), len(block))
                stream.seek(len(block), os.SEEK_CUR)
            else:
                stream.write(block)
        stream.flush()
        os.fsync(stream.fileno())


def _hole(descriptor: int, offset: int, length: int) -> None:
    """Zeros in a file: none are written where there are none to overwrite."""
    if os.pread(descriptor, length, offset).strip(b"\0"):
        os.pwrite(descriptor, bytes(length), offset)


def table(image: Path) -> Layout:
    """The layout of an image. Raises `ImageError` when it is none of ours."""
    return parse_table(tool(["sfdisk", "--json", image]))


def copy_sparse(source: Path, target: Path) -> None:
    """Copy an image, sharing blocks with it where the file system can, keeping its holes."""
    tool(["cp", "--reflink=auto", "--sparse=always", source, target])
