"""The base from Debian's packages: a root that mmdebstrap installs under emulation, and file systems made from folders."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pinion.image import recipe
from pinion.image.disk import digest, disk_id, ext4, fat, tool
from pinion.image.errors import ImageError
from pinion.image.kinds import Kind, Made
from pinion.image.layout import BOOT, LABELS, MIB, ROOT, SEED, Layout, layout
from pinion.image.packages import Lock, Say, heal, index, make_lock, read_lock, write_lock
from pinion.image.sbom import Json, bill
from pinion.image.store import Store
from pinion.lab.root_builder import failure, root_builder
from pinion.lab.state import write_file

#: The root as built; it grows over the card at first boot.
ROOT_BYTES = 1536 * MIB
#: Seconds for the root's build under emulation: a quarter of an hour was seen on two cores with other work on them.
BUILD_TIMEOUT = 3600.0


def locked(store: Store, say: Say, *, update: bool) -> Lock:
    """The operator's lock of packages; made when there is none, or anew with *update*."""
    found = None if update else read_lock(store.lock_file)
    if found is None:
        found = make_lock(store.pool, say)
        write_lock(store.lock_file, found)
    return found


def planned(lock: Lock) -> tuple[str, Layout]:
    """Key and layout of the base with this lock."""
    first = layout(disk_id(lock.digest), root=ROOT_BYTES)
    return recipe.key(first, lock.digest), first


@dataclass(frozen=True, slots=True)
class DebianBuilder:
    """The base with the packages of *lock*."""

    store: Store
    lock: Lock

    @property
    def kind(self) -> Kind:
        return Kind.DEBIAN

    @property
    def key(self) -> str:
        return planned(self.lock)[0]

    @property
    def epoch(self) -> int:
        return self.lock.epoch

    @property
    def contents(self) -> str:
        return f"{len(self.lock.packages)} packages of {self.lock.release}"

    @property
    def _root(self) -> Path:
        """What costs minutes is kept here until the image is whole, so that a run that was cut goes on from there."""
        return self.store.cache / f".root-{self.key[:16]}.tar"

    def make(self, work: Path, held: int, say: Say, *, afresh: bool) -> Made:
        """Install the packages, or take the root that an earlier run kept, and make the file systems."""
        key, disk = planned(self.lock)
        heal(self.lock, self.store.pool, say)
        if afresh or not _kept(self._root):
            say("root", "installs the packages under emulation, about a quarter of an hour on two cores")
            _install(self.store, self.lock, disk, work, held, say)
            _keep(work / "root/root.tar", self._root)
        say("disk", "makes the file systems")
        status = _file_systems(self.store, self.lock, disk, work, key, self._root)
        packages: list[Json] = [package.model_dump(mode="json") for package in self.lock.packages]
        inputs: dict[str, Json] = {
            "release": self.lock.release,
            "architecture": self.lock.architecture,
            "lock": self.lock.digest,
            "packages": packages,
        }
        carried = (recipe.FIRMWARE,)
        return Made(
            disk, inputs, lambda sha256: bill(status, self.lock, name="pinion-base", digest=sha256, carried=carried)
        )

    def done(self) -> None:
        """Remove kept roots, also those of other locks."""
        _forget(self.store.cache)


def _install(store: Store, lock: Lock, disk: Layout, work: Path, held: int, say: Say) -> None:
    """Build the root's tar in namespaces of its own; its processes end with this one."""
    given = work / "input"
    _write_input(given, store, lock, disk)
    target = work / "root"
    target.mkdir()
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "INPUT": str(given),
        "POOL": str(store.pool),
        "TARGET": str(target),
        "RELEASE": lock.release,
        "SOURCE_DATE_EPOCH": str(lock.epoch),
    }
    log = store.cache / "build.log"
    with root_builder("pinion.image", "build-root.sh", environment, log, held) as builder:
        status = _watched(builder, log, len(lock.packages), say)
    if status:
        raise ImageError(f"root of the image: {failure(status, log)}")


def _watched(builder: subprocess.Popen[bytes], log: Path, packages: int, say: Say) -> int:
    """Wait for the builder, telling how far it is; its exit status. Raises `ImageError` when it takes too long."""
    started = time.monotonic()
    told = ""
    while True:
        try:
            return builder.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            pass
        seconds = time.monotonic() - started
        if seconds > BUILD_TIMEOUT:
            raise ImageError(f"root of the image: not built after {BUILD_TIMEOUT:.0f} s; see {log}")
        text = progress(log.read_text(errors="replace"), packages)
        if text != told:
            say("root", text)
            told = text


def progress(log: str, packages: int) -> str:
    """How far the build is, from what dpkg said so far: each package is unpacked, then set up."""
    unpacked, ready = (
        len(set(re.findall(rf"^{verb} (\S+)", log, re.MULTILINE))) for verb in ("Unpacking", "Setting up")
    )
    if "update-initramfs: Generating" in log:
        return f"{ready} of {packages} packages ready; makes the initramfs"
    return f"{unpacked} of {packages} packages unpacked, {ready} ready"


def _write_input(given: Path, store: Store, lock: Lock, disk: Layout) -> None:
    given.mkdir()
    (given / "Packages").write_text(index(lock, store.pool))
    (given / "packages").write_text("".join(f"{name}\n" for name in recipe.PACKAGES))
    (given / "script").write_text(recipe.script())
    (given / "initramfs").write_text(recipe.INITRAMFS)
    (given / "idle").write_text(recipe.idle(python_version(lock)))
    for path, (text, mode) in recipe.files(disk).items():
        target = given / "files" / path.lstrip("/")
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
    # their modes become those of the image's own folders, / among them, whatever the operator's umask
    for folder in (given / "files", *(path for path in (given / "files").rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def python_version(lock: Lock) -> str:
    """The version of Python in the image, as its folder has it: 3.13."""
    for package in lock.packages:
        if found := re.fullmatch(r"python(3\.\d+)-minimal", package.name):
            return found.group(1)
    raise ImageError("lock of packages: no python3.N-minimal in it")


def _keep(made: Path, root: Path) -> None:
    """Keep a root under its name, its digest first: one without its digest is none."""
    write_file(root.with_suffix(".sha256"), digest(made), 0o644)
    made.replace(root)


def _kept(root: Path) -> bool:
    """Whether the root is there and whole."""
    try:
        return digest(root) == root.with_suffix(".sha256").read_text()
    except FileNotFoundError:
        return False


def _forget(cache: Path) -> None:
    """Remove kept roots, also those of other locks."""
    for path in cache.glob(".root-*"):
        path.unlink()


def _file_systems(store: Store, lock: Lock, disk: Layout, work: Path, key: str, root: Path) -> str:
    """Make the three file systems; returns dpkg's status."""
    tree = work / "tree"
    tree.mkdir(mode=0o755)
    tool(
        [
            "tar",
            "--extract",
            "--numeric-owner",
            "--same-permissions",
            "--xattrs",
            "--xattrs-include=*",
            "-C",
            tree,
            "-f",
            root,
        ]
    )
    status = (tree / "var/lib/dpkg/status").read_text()
    firmware = work / "firmware"
    tool(["dpkg-deb", "--extract", store.pool / lock.package(recipe.FIRMWARE).file, firmware])
    fat(work / f"{BOOT}.fs", disk[BOOT].size, LABELS[BOOT], boot_files(tree, firmware), key=key, epoch=lock.epoch)
    fat(work / f"{SEED}.fs", disk[SEED].size, LABELS[SEED], {}, key=key, epoch=lock.epoch)
    ext4(work / f"{ROOT}.fs", disk[ROOT].size, LABELS[ROOT], tree, key=key, epoch=lock.epoch)
    shutil.rmtree(tree)
    return status


def boot_files(tree: Path, firmware: Path) -> dict[str, bytes | Path]:
    """What the boot partition holds, by name: kernel and initramfs under the names that the firmware looks for, device trees, firmware."""
    kernels = sorted((tree / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise ImageError(f"root of the image: {len(kernels)} kernels in /boot, expected one")
    version = kernels[0].name.partition("-")[2]
    found: dict[str, bytes | Path] = {"kernel8.img": kernels[0], "initramfs8": tree / "boot" / f"initrd.img-{version}"}
    trees = tree / "usr/lib" / f"linux-image-{version}" / "broadcom"
    for pattern in ("bcm2711-rpi-*.dtb", "bcm2712-rpi-*.dtb"):
        found |= {path.name: path for path in trees.glob(pattern)}
    found |= {Path(name).name: firmware / name for name in recipe.FIRMWARE_FILES}
    for name, path in found.items():
        if isinstance(path, Path) and not path.is_file():
            raise ImageError(f"boot partition: there is no {path.name} for {name}")
    return found
