"""A vendor's image archive: fetched with resume, or handed over as a file; used only when its SHA-256 is the recorded one."""

from __future__ import annotations

import contextlib
import lzma
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pinion.image.disk import copy_sparse, digest
from pinion.image.errors import ImageError
from pinion.image.layout import MIB
from pinion.image.packages import Say
from pinion.services.node_programs import model_store

#: Seconds that the vendor's host may take to say that it is there.
_PATIENCE = 6.0
#: Seconds between two lines of progress.
_SPOKEN = 5.0


@dataclass(frozen=True, slots=True)
class Archive:
    """An image, compressed by xz: where the vendor has it, its *size* in bytes, SHA-256, and *epoch*, when it was published."""

    url: str
    size: int
    sha256: str
    epoch: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.url.rpartition("/")[2]


def kept(archive: Archive, folder: Path) -> Path:
    """Where *archive* lies in *folder* once it was found to be whole."""
    return folder / f"{archive.sha256}.img.xz"


def unreachable(archive: Archive) -> str | None:
    """Why the vendor's host cannot be asked for *archive*; None when it has it."""
    request = urllib.request.Request(archive.url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):
            return None
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__


def have(archive: Archive, folder: Path, given: Path | None, say: Say) -> Path:
    """Have *archive* in *folder*: the file *given*, or what is there, or fetched from the vendor. Raises `ImageError`."""
    place = kept(archive, folder)
    part = place.with_name(f".{place.name}.part")
    folder.mkdir(parents=True, exist_ok=True)
    if given is not None:
        _refuse(archive, given, str(given))
        if not place.exists():
            copy_sparse(given, part)
            part.replace(place)
    if place.exists():
        if digest(place) == archive.sha256:
            return place
        say("archive", f"{place} is damaged: fetches it anew")
        place.unlink()
    if why := unreachable(archive):
        raise ImageError(f"{archive.url}: {why}. {_instead(archive)}")
    _fetch(archive, part, say)
    try:
        _refuse(archive, part, archive.url)
    except ImageError:
        part.unlink()
        raise
    part.replace(place)
    return place


def _refuse(archive: Archive, file: Path, named: str) -> None:
    """Raise `ImageError` unless *file* is the archive."""
    try:
        found = digest(file)
    except OSError as error:
        raise ImageError(f"{named}: cannot be read: {error.strerror}") from None
    if found != archive.sha256:
        raise ImageError(f"{named}: refused: its SHA-256 is {found}, that of {archive.name} is {archive.sha256}")


def _fetch(archive: Archive, part: Path, say: Say) -> None:
    """Get the archive into *part*, going on where an earlier run ended."""
    wanted = model_store.Model(
        name=archive.name,
        artefact=archive.name,
        url=archive.url,
        sha256=archive.sha256,
        size=archive.size,
        signature="",
        format="img.xz",
        architecture="arm64",
        units=(),
    )
    with _telling(archive, part, say), contextlib.redirect_stdout(sys.stderr):
        try:
            model_store.fetch(wanted, part)
        except model_store.RefusedError as error:
            raise ImageError(f"{error}. {_instead(archive)}") from None


def _instead(archive: Archive) -> str:
    return (
        f"Fetch {archive.name} elsewhere and hand it over with --base-archive FILE, or take Debian with --base debian"
    )


@contextlib.contextmanager
def _telling(archive: Archive, part: Path, say: Say) -> Iterator[None]:
    """Say every few seconds how much is here."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SPOKEN):
            with contextlib.suppress(FileNotFoundError):
                say("archive", f"{part.stat().st_size // MIB} of {archive.size // MIB} MiB of {archive.name}")

    say("archive", f"fetches {archive.url}")
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def unpack(place: Path, target: Path) -> None:
    """Write what *place* holds to *target*, with holes where it is zero. Raises `ImageError`."""
    try:
        with lzma.open(place) as source, target.open("xb") as stream:
            while block := source.read(MIB):
                if block.strip(b"\0"):
                    stream.write(block)
                else:
                    stream.seek(len(block), os.SEEK_CUR)
            stream.truncate()
    except (lzma.LZMAError, EOFError) as error:
        raise ImageError(f"{place}: no archive of xz: {error}") from None
