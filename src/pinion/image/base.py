"""The base image: one for all nodes, the same bytes for the same inputs.

Invariants:

* A base exists only whole: it is built aside and renamed; a build that was killed leaves no process, and the next clears its remains.
* One builder at a time; it holds a lock that its children inherit.
* What is there is compared with its manifest (sizes at each use, digests when asked): a damaged one is built again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pinion.image import raspios
from pinion.image.archives import have
from pinion.image.debian import BUILD_TIMEOUT, DebianBuilder, locked
from pinion.image.disk import assemble, digest, table, tool
from pinion.image.errors import ImageError
from pinion.image.kinds import Builder, Kind, Made
from pinion.image.layout import BOOT, ROOT, SEED, Layout
from pinion.image.packages import Say
from pinion.image.sbom import Json
from pinion.image.signing import Signer
from pinion.image.store import Store
from pinion.lab.errors import LabError
from pinion.lab.state import lock as hold
from pinion.lab.state import read_json, write_file

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
    """A base image that is there. *epoch* is every time that we set in it, *contents* what it is made of in words."""

    folder: Path
    disk: Layout
    key: str
    sha256: str
    epoch: int
    contents: str

    @property
    def image(self) -> Path:
        return self.folder / IMAGE

    @property
    def manifest(self) -> Path:
        return self.folder / MANIFEST

    @property
    def bill(self) -> Path:
        return self.folder / BILL


def present(store: Store, builder: Builder, *, thorough: bool = False) -> Base | None:
    """The base that *builder* makes, when it is there and whole; *thorough* also reads it and compares its digest."""
    folder = store.base(builder.key)
    manifest = read_json(folder / MANIFEST)
    image = manifest.get("image")
    if manifest.get("key") != builder.key or not isinstance(image, dict):
        return None
    path, sha256 = folder / IMAGE, image.get("sha256")
    if not isinstance(sha256, str) or not path.is_file() or path.stat().st_size != image.get("size"):
        return None
    if thorough and digest(path) != sha256:
        return None
    return Base(folder, table(path), builder.key, sha256, builder.epoch, builder.contents)


def ensure(
    store: Store,
    say: Say,
    kind: Kind = Kind.DEBIAN,
    *,
    update: bool = False,
    rebuild: bool = False,
    archive: Path | None = None,
) -> Base:
    """Have the base image of *kind*. *update* takes the newest packages, *rebuild* builds also what is there.

    *archive* is the file of Raspberry Pi OS, where it is not to be fetched. Raises `ImageError`.
    """
    if os.geteuid() != 0:
        raise ImageError("images are built as root: files in them belong to root; run with sudo")

    def waiting(seconds: float) -> None:
        if int(seconds) % 10 == 1:
            say("base", f"waits for another build ({seconds:.0f} s)")

    try:
        with hold(store.cache / ".lock", timeout=BUILD_TIMEOUT, waiting=waiting) as held:
            builder = _builder(store, say, kind, archive, update=update)
            found = None if rebuild else present(store, builder, thorough=True)
            if found is None:
                return _build(store, builder, held, say, afresh=rebuild)
            _sign(store, found.folder)
            return found
    except LabError as error:
        raise ImageError(str(error)) from None


def _builder(store: Store, say: Say, kind: Kind, archive: Path | None, *, update: bool) -> Builder:
    if kind is Kind.RASPIOS:
        if archive is not None:
            # looked at also where the base is there: nobody shall believe that it is made of another file
            have(raspios.ARCHIVE, store.archives, archive, say)
        return raspios.RaspiosBuilder(store, raspios.ARCHIVE)
    return DebianBuilder(store, locked(store, say, update=update))


def _build(store: Store, builder: Builder, held: int, say: Say, *, afresh: bool) -> Base:
    started = time.monotonic()
    work = store.cache / ".building"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    try:
        made = builder.make(work, held, say, afresh=afresh)
        say("disk", "puts the image together")
        result = work / "result"
        result.mkdir()
        assemble(result / IMAGE, made.disk, {name: work / f"{name}.fs" for name in (BOOT, SEED, ROOT)})
        sha256 = digest(result / IMAGE)
        _describe(result, builder, made, sha256)
        _sign(store, result)
        final = store.base(builder.key)
        if final.exists():
            old = store.cache / ".replaced"
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        tool(["sync", "-f", result])
        result.rename(final)
        shutil.rmtree(store.cache / ".replaced", ignore_errors=True)
        builder.done()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say("base", f"built in {time.monotonic() - started:.0f} s: {final / IMAGE}")
    return Base(final, made.disk, builder.key, sha256, builder.epoch, builder.contents)


def _sign(store: Store, folder: Path) -> None:
    """Have this operator's signatures beside the files: another operator's base in the same cache has another's."""
    signer = Signer(store.signing_key)
    for name in (IMAGE, MANIFEST, BILL):
        if not signer.signed(folder / name):
            signer.sign(folder / name)


def _describe(folder: Path, builder: Builder, made: Made, sha256: str) -> None:
    """Manifest and bill of materials."""
    write_file(folder / BILL, json.dumps(made.bill(sha256), indent=1) + "\n", 0o644)
    manifest: dict[str, Json] = {
        "schema_version": 1,
        "key": builder.key,
        "image": {"file": IMAGE, "size": made.disk.size, "sha256": sha256},
        "partitions": [
            {"name": part.name, "start": part.start, "size": part.size, "partuuid": made.disk.partuuid(part.name)}
            for part in made.disk.partitions
        ],
        "inputs": made.inputs | {"base": builder.kind, "epoch": builder.epoch, "tools": dict(tool_versions())},
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
