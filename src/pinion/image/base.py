"""The base image: one for all nodes, the same bytes for the same inputs.

Invariants:

* A base exists only whole: it is built aside and renamed; a build that was killed leaves no process, and the next clears its remains.
* One builder at a time; it holds a lock that its children inherit.
* What is there is compared with its manifest (sizes at each use, digests when asked): a damaged one is built again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pinion.image import recipe
from pinion.image.disk import assemble, digest, disk_id, ext4, fat, tool
from pinion.image.errors import ImageError
from pinion.image.layout import BOOT, LABELS, MIB, ROOT, SEED, Layout, layout
from pinion.image.packages import Lock, Say, heal, index, make_lock, read_lock, write_lock
from pinion.image.sbom import Json, bill
from pinion.image.signing import Signer
from pinion.image.store import Store
from pinion.lab.errors import LabError
from pinion.lab.root_builder import failure, root_builder
from pinion.lab.state import lock as hold
from pinion.lab.state import read_json, write_file

#: The root as built; it grows over the card at first boot.
ROOT_BYTES = 1536 * MIB
#: Seconds for the root's build under emulation: a quarter of an hour was seen on two cores with other work on them.
_BUILD_TIMEOUT = 3600.0
IMAGE, MANIFEST, BILL = "base.img", "manifest.json", "sbom.cdx.json"
#: Programs whose output is in the image, and how they tell their version.
_TOOLS = {
    "mmdebstrap": ("mmdebstrap", "--version"),
    "qemu-aarch64-static": ("qemu-aarch64-static", "--version"),
    "mkfs.fat": ("mkfs.fat", "--help"),
    "sfdisk": ("sfdisk", "--version"),
    "mtools": ("mcopy", "--version"),
}


@dataclass(frozen=True, slots=True)
class Base:
    """A base image that is there. *lock* is what is installed in it."""

    folder: Path
    disk: Layout
    lock: Lock
    key: str
    sha256: str

    @property
    def image(self) -> Path:
        return self.folder / IMAGE

    @property
    def manifest(self) -> Path:
        return self.folder / MANIFEST

    @property
    def bill(self) -> Path:
        return self.folder / BILL


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


def present(store: Store, lock: Lock, *, thorough: bool = False) -> Base | None:
    """The base with this lock, when it is there and whole; *thorough* also reads it and compares its digest."""
    key, disk = planned(lock)
    folder = store.base(key)
    manifest = read_json(folder / MANIFEST)
    image = manifest.get("image")
    if manifest.get("key") != key or not isinstance(image, dict):
        return None
    path, sha256 = folder / IMAGE, image.get("sha256")
    if not isinstance(sha256, str) or not path.is_file() or path.stat().st_size != image.get("size"):
        return None
    if thorough and digest(path) != sha256:
        return None
    return Base(folder, disk, lock, key, sha256)


def ensure(store: Store, say: Say, *, update: bool = False, rebuild: bool = False) -> Base:
    """Have the base image. *update* takes the newest packages, *rebuild* builds also what is there. Raises `ImageError`."""
    if os.geteuid() != 0:
        raise ImageError("images are built as root: files in them belong to root; run with sudo")

    def waiting(seconds: float) -> None:
        if int(seconds) % 10 == 1:
            say("base", f"waits for another build ({seconds:.0f} s)")

    try:
        with hold(store.cache / ".lock", timeout=_BUILD_TIMEOUT, waiting=waiting) as held:
            lock = locked(store, say, update=update)
            found = None if rebuild else present(store, lock, thorough=True)
            return found if found is not None else _build(store, lock, held, say, afresh=rebuild)
    except LabError as error:
        raise ImageError(str(error)) from None


def _build(store: Store, lock: Lock, held: int, say: Say, *, afresh: bool) -> Base:
    key, disk = planned(lock)
    started = time.monotonic()
    heal(lock, store.pool, say)
    work = store.cache / ".building"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    # What costs minutes is kept until the image is whole, so that a run that was cut goes on from there.
    root = store.cache / f".root-{key[:16]}.tar"
    try:
        if afresh or not _kept(root):
            say("root", "installs the packages under emulation, about a quarter of an hour on two cores")
            _root(store, lock, disk, work, held, say)
            _keep(work / "root/root.tar", root)
        say("disk", "makes the file systems")
        status = _file_systems(store, lock, disk, work, key, root)
        say("disk", "puts the image together")
        result = work / "result"
        result.mkdir()
        assemble(result / IMAGE, disk, {name: work / f"{name}.fs" for name in (BOOT, SEED, ROOT)})
        sha256 = digest(result / IMAGE)
        _describe(result, lock, key, disk, sha256, status)
        signer = Signer(store.signing_key)
        for name in (IMAGE, MANIFEST, BILL):
            signer.sign(result / name)
        final = store.base(key)
        if final.exists():
            old = store.cache / ".replaced"
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        tool(["sync", "-f", result])
        result.rename(final)
        shutil.rmtree(store.cache / ".replaced", ignore_errors=True)
        _forget(store.cache)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say("base", f"built in {time.monotonic() - started:.0f} s: {final / IMAGE}")
    return Base(final, disk, lock, key, sha256)


def _root(store: Store, lock: Lock, disk: Layout, work: Path, held: int, say: Say) -> None:
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
        if seconds > _BUILD_TIMEOUT:
            raise ImageError(f"root of the image: not built after {_BUILD_TIMEOUT:.0f} s; see {log}")
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


def _describe(folder: Path, lock: Lock, key: str, disk: Layout, sha256: str, status: str) -> None:
    """Manifest and bill of materials."""
    listed = bill(status, lock, name="pinion-base", digest=sha256, carried=(recipe.FIRMWARE,))
    write_file(folder / BILL, json.dumps(listed, indent=1) + "\n", 0o644)
    packages: list[Json] = [package.model_dump(mode="json") for package in lock.packages]
    manifest: dict[str, Json] = {
        "schema_version": 1,
        "key": key,
        "image": {"file": IMAGE, "size": disk.size, "sha256": sha256},
        "partitions": [
            {"name": part.name, "start": part.start, "size": part.size, "partuuid": disk.partuuid(part.name)}
            for part in disk.partitions
        ],
        "inputs": {
            "base": "debian",
            "release": lock.release,
            "architecture": lock.architecture,
            "epoch": lock.epoch,
            "lock": lock.digest,
            "tools": dict(tool_versions()),
            "packages": packages,
        },
        "bill_of_materials": {"file": BILL, "sha256": digest(folder / BILL)},
    }
    write_file(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n", 0o644)


def tool_versions() -> dict[str, str]:
    """Versions of the programs that shape the image, as they tell them: another version may give other bytes."""
    found = {}
    for name, argv in _TOOLS.items():
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        found[name] = ((done.stdout + done.stderr).strip().splitlines() or ["?"])[0].strip()
    done = subprocess.run(["mke2fs", "-V"], capture_output=True, text=True, check=False)
    found["mke2fs"] = done.stderr.strip().splitlines()[0].strip()
    return found


__all__ = ["BILL", "IMAGE", "MANIFEST", "Base", "ensure", "heal", "planned", "present"]
