"""The packages of the base image: resolved once by apt, recorded in a lock, kept in a pool; later builds use these and no others.

Invariants:

* apt checks the archive's signatures when a lock is made; from then on the lock's SHA-256 of each file is what counts.
* A file of the pool that is missing or does not match its digest is fetched again in the same version; one that the mirror no longer
  has is an error that says how to make a new lock. Nothing is ever taken in another version than locked.
* A killed run leaves at most files that do not match; they are seen at the next run.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pinion.image.errors import ImageError
from pinion.image.recipe import ARCHITECTURE, FIRMWARE, PACKAGES, RELEASE
from pinion.lab import apt
from pinion.lab.errors import LabError
from pinion.lab.processes import run
from pinion.lab.state import write_file

Say = Callable[[str, str], None]
#: Seconds for one run of apt.
_APT_TIMEOUT = 900.0
#: A line of apt-get's --print-uris: address, file name, size, digest.
_LISTED = re.compile(r"^'[^']*' (\S+) \d+ SHA256:([0-9a-f]{64})$", re.MULTILINE)


class Locked(BaseModel):
    """One package file: its *file* name in the pool, *size* in bytes, SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    architecture: str
    file: str
    size: int
    sha256: str


class Lock(BaseModel):
    """Everything that is installed. *epoch* is when the archive was published (seconds since 1970): every time in the image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    release: str
    architecture: str
    asked: tuple[str, ...]
    epoch: int
    packages: tuple[Locked, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of its canonical JSON."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def package(self, name: str) -> Locked:
        """The package called *name*; `KeyError` when it is not there."""
        for package in self.packages:
            if package.name == name:
                return package
        raise KeyError(name)


def read_lock(path: Path) -> Lock | None:
    """The lock in *path*; None when there is none, or one of another recipe. Raises `ImageError` when it cannot be read."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        lock = Lock.model_validate_json(text)
    except ValidationError as error:
        raise ImageError(
            f"{path}: no lock of packages ({error.error_count()} problems); remove it to make a new one"
        ) from None
    return lock if (lock.release, lock.architecture, lock.asked) == (RELEASE, ARCHITECTURE, PACKAGES) else None


@dataclass(frozen=True, slots=True)
class Archive:
    """apt with folders of its own, for another architecture, on this machine's mirrors. *pool* gets the files."""

    pool: Path
    work: Path

    def nothing(self) -> Path:
        """An empty folder for files."""
        folder = self.work / "nothing"
        (folder / "partial").mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def command(self, *arguments: str, pool: Path | None = None) -> str:
        """Run apt-get with the files in *pool*, by default its own; its standard output. Raises `ImageError`."""
        options = [f"-oDir::{key}={value}" for key, value in self._folders(pool or self.pool).items()]
        options += [
            f"-oAPT::Architecture={ARCHITECTURE}", f"-oAPT::Architectures={ARCHITECTURE}", "-oAcquire::Languages=none",
            "-oAcquire::Retries=3", "-oAPT::Install-Recommends=false", "-oAPT::Sandbox::User=root", "-oAPT::Get::Assume-Yes=true", "-qq",
        ]  # fmt: skip
        options += [f"-o{key}={value}" for key, value in apt.machine_options().items()]
        try:
            # `download` writes where it is started
            argv = ["env", f"--chdir={self.pool}", "apt-get", *options, *arguments]
            return run(argv, timeout=_APT_TIMEOUT).stdout
        except LabError as error:
            said = str(error).rpartition(": exit ")[2]
            raise ImageError(f"packages of the image: apt-get {arguments[0]}: {said[-1500:]}") from None

    def _folders(self, pool: Path) -> dict[str, Path]:
        return {
            "": self.work,
            "State": self.work,
            "State::status": self.work / "status",
            "State::lists": self.work / "lists",
            "Cache": self.work,
            "Cache::archives": pool,
            "Etc": self.work / "etc",
        }

    def open(self) -> None:
        """Folders, sources and the newest lists."""
        for folder in ("etc/apt.conf.d", "etc/sources.list.d", "etc/preferences.d", "lists/partial"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        (self.pool / "partial").mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.work / "status").touch()
        sources = apt.machine_mirrors().sources().replace("Components: main\n", "Components: main non-free-firmware\n")
        (self.work / "etc/sources.list.d/debian.sources").write_text(sources)
        self.command("update")

    def published(self) -> int:
        """When the newest part of the archive was published, in seconds since 1970."""
        dates = [
            parsedate_to_datetime(found.group(1))
            for path in sorted((self.work / "lists").glob("*Release"))
            if (found := re.search(r"^Date: (.+)$", path.read_text(errors="replace"), re.MULTILINE))
        ]
        if not dates:
            raise ImageError("packages of the image: apt fetched no release file; look at apt-get update")
        # some archives say UTC in words
        return max(int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()) for date in dates)


def make_lock(pool: Path, say: Say) -> Lock:
    """Resolve and fetch the newest versions. Raises `ImageError` when apt cannot."""
    with tempfile.TemporaryDirectory(prefix="pinion-apt-") as scratch:
        archive = Archive(pool, Path(scratch))
        say("packages", "asks the mirror what is newest")
        archive.open()
        wanted = ["?essential", "apt", *PACKAGES, FIRMWARE]
        # apt lists what it would fetch: all of it, when the folder is empty
        listed = archive.command(
            "install", "--print-uris", "-oAcquire::ForceHash=SHA256", *wanted, pool=archive.nothing()
        )
        stated: dict[str, str] = dict(_LISTED.findall(listed))
        if not stated:
            raise ImageError(f"packages of the image: apt answered nothing useful: {listed[:200]!r}")
        say("packages", f"fetches {len(stated)} packages, or has them already")
        for name, sha256 in stated.items():
            if _digest(pool / name) != sha256:
                (pool / name).unlink(missing_ok=True)
        archive.command("install", "--download-only", *wanted)
        found = [_locked(pool / name) for name in sorted(stated)]
        if wrong := [package.file for package in found if package.sha256 != stated[package.file]]:
            raise ImageError(f"packages of the image: not what the archive's index says: {', '.join(wrong)}")
        epoch = archive.published()
    say("packages", f"locked {len(found)} packages of {datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M} UTC")
    return Lock(release=RELEASE, architecture=ARCHITECTURE, asked=PACKAGES, epoch=epoch, packages=tuple(found))


def _locked(path: Path) -> Locked:
    fields = control(path)
    content = path.read_bytes()
    return Locked(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        file=path.name,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def control(path: Path) -> dict[str, str]:
    """The control fields of a package file, folded lines joined as they are. Raises `ImageError`."""
    try:
        text = run(["dpkg-deb", "--field", str(path)]).stdout
    except LabError as error:
        raise ImageError(f"{path.name}: no Debian package: {error}") from None
    fields: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if line[:1] in {" ", "\t"}:
            fields[key] += f"\n{line}"
        else:
            key, _, value = line.partition(":")
            fields[key] = value.strip()
    return fields


def _digest(path: Path) -> str | None:
    """SHA-256 of a file, None when it is not there."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def broken(lock: Lock, pool: Path) -> list[Locked]:
    """Those of *lock* that *pool* has not, or not whole."""
    return [package for package in lock.packages if _digest(pool / package.file) != package.sha256]


def heal(lock: Lock, pool: Path, say: Say) -> None:
    """Have every file of *lock* in *pool*, whole. Raises `ImageError` for what the mirror no longer has."""
    missing = broken(lock, pool)
    if not missing:
        return
    say("packages", f"{len(missing)} of {len(lock.packages)} are missing or damaged: fetches them again")
    for package in missing:
        (pool / package.file).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="pinion-apt-") as scratch:
        archive = Archive(pool, Path(scratch))
        archive.open()
        try:
            archive.command("download", *(f"{package.name}={package.version}" for package in missing))
        except ImageError as error:
            raise ImageError(
                f"{error}; where the mirror no longer has what is locked, make a new lock with --update"
            ) from None
    if left := broken(lock, pool):
        names = ", ".join(f"{package.name} {package.version}" for package in left)
        raise ImageError(
            f"packages of the image: the mirror has other files than locked for {names}; make a new lock with --update"
        )


def index(lock: Lock, pool: Path) -> str:
    """The index (``Packages``) of an archive that holds exactly what is locked."""
    stanzas = []
    for package in lock.packages:
        fields = control(pool / package.file) | {
            "Filename": f"pool/{package.file}",
            "Size": str(package.size),
            "SHA256": package.sha256,
        }
        stanzas.append("".join(f"{key}: {value}\n" for key, value in fields.items()))
    return "\n".join(stanzas)


def write_lock(path: Path, lock: Lock) -> None:
    """Replace the lock in *path*."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(path, json.dumps(json.loads(lock.model_dump_json()), indent=1) + "\n", 0o644)
