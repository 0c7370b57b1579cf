"""Vendors' release files: fetched once, checked against the recorded checksum, never trusted without it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from urllib.response import addinfourl

from toolchest.process import UnavailableError, machine_arch
from toolchest.recipes import Archive

#: Seconds a host may take to answer before it counts as unreachable for the rest of the run.
PATIENCE = 6.0
CHUNK = 1 << 20


class Downloads:
    """Fetches release files into `folder`. A host that does not answer is tried once and remembered for this run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._unreachable: dict[str, str] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def _lock(self, name: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())

    def _open(self, url: str) -> addinfourl:
        host = urllib.parse.urlsplit(url).netloc
        with self._lock(host):
            if host in self._unreachable:
                raise UnavailableError(f"{host} is unreachable ({self._unreachable[host]})")
            try:
                response: addinfourl = urllib.request.urlopen(url, timeout=PATIENCE)
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    self._unreachable[host] = f"HTTP {error.code}"
                raise UnavailableError(f"{url}: HTTP {error.code}") from error
            except (OSError, ValueError) as error:
                reason = str(getattr(error, "reason", error))
                self._unreachable[host] = reason
                raise UnavailableError(f"{url}: {reason}") from error
        return response

    def fetch(self, archive: Archive, version: str) -> Path:
        """Return the release file for this machine, from an earlier download or from the vendor.

        Raises:
            UnavailableError: no checksum for this architecture, no answer, or the content differs from the checksum.
        """
        arch = machine_arch()
        if arch not in archive.checksums:
            raise UnavailableError(f"no checksum is recorded for {arch}")
        algorithm, expected = archive.checksums[arch]
        url = archive.url.format(version=version, arch=arch)
        target = self.folder / f"{algorithm}-{expected}"
        with self._lock(str(target)):
            if target.exists() and digest_of(target, algorithm) == expected:
                return target
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = self.folder / f".{target.name[:24]}.{os.getpid()}.part"
            try:
                with self._open(url) as response, partial.open("wb") as file:
                    while chunk := response.read(CHUNK):
                        file.write(chunk)
                found = digest_of(partial, algorithm)
                if found != expected:
                    raise UnavailableError(f"REFUSED {url}: {algorithm} is {found}, recorded is {expected}")
                partial.replace(target)
            except OSError as error:
                raise UnavailableError(f"{url}: broke off: {error}") from error
            finally:
                partial.unlink(missing_ok=True)
        return target

    def forget(self) -> None:
        """Delete the release files: their programs are in the cache now."""
        shutil.rmtree(self.folder, ignore_errors=True)


def digest_of(path: Path, algorithm: str) -> str:
    """Return a file's digest in hex."""
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def extract_members(archive: Path, members: dict[str, str], folder: Path) -> None:
    """Put each program's file from an archive (tar of any kind, zip, or the bare program) into `folder`.

    Raises:
        UnavailableError: a member is missing, or the archive is of no known kind.
    """
    arch = machine_arch()
    wanted = {program: path.format(arch=arch) for program, path in members.items()}
    try:
        if all(not path for path in wanted.values()):
            for program in wanted:
                shutil.copyfile(archive, folder / program)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                for program, path in wanted.items():
                    source = tar.extractfile(_tar_member(tar, path))
                    if source is None:
                        raise UnavailableError(f"{path} is no file in the archive")
                    with source, (folder / program).open("wb") as target:
                        shutil.copyfileobj(source, target, CHUNK)
        else:
            with zipfile.ZipFile(archive) as packed:
                for program, path in wanted.items():
                    with packed.open(path) as source, (folder / program).open("wb") as target:
                        shutil.copyfileobj(source, target, CHUNK)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise UnavailableError(f"the archive is not as the recipe says: {error}") from error


def _tar_member(tar: tarfile.TarFile, path: str) -> tarfile.TarInfo:
    for spelling in (path, f"./{path}"):
        try:
            return tar.getmember(spelling)
        except KeyError:
            continue
    raise KeyError(f"no {path} in it")
