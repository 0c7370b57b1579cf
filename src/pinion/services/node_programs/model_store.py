#!/usr/bin/python3 -I
"""Keep the models of a node: fetch, check, put in use, throw away: model-store [--config FILE] [--check [--hash]].

    <folder>/<model>/current    link to the file in use     <folder>/<model>/previous   link to the one before
    <folder>/.files/<sha256>.<format>                       <folder>/.partial/<sha256>  what is not whole yet

A file gets its place in `.files` only when its length, its SHA-256, the signature over what the site says of it, and its format are right;
`current` is then replaced by rename. Killed at any point, the next run goes on from there: half a file is fetched on, a file that is whole
is not fetched again, and who uses the model is restarted once more rather than never.

What is in use is hashed again once a week: cards forget bits without telling anybody. In between, a file that keeps its length, times and
number is the one that was hashed.

--check: change nothing; what is wrong goes to standard output, with how far a model is that is on its way. With --hash every file in use
is hashed for it, gigabytes as they are. Exit: 0 all is as wanted, 1 something is not, 2 could not work at all. Who serves a model asks
edge-serve, which reads what is noted here in `.seen`.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CONFIG = Path("/etc/pinion/model-store.json")
#: The site file's names; so nothing that comes from there leads out of the folder, or hides in it.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DIGEST = re.compile(r"[0-9a-f]{64}")
FORMATS = ("gguf", "onnx")
#: Lies beside this program under this name.
FORMAT_PROGRAM = "model-format"
#: Left free on the disk beside what is fetched: journals, updates and logs must still find room.
RESERVE = 256 << 20
CHUNK = 1 << 20
#: Seconds without a byte until a connection counts as dead; how often one run goes on after that.
PATIENCE, TRIES = 30.0, 4
#: Seconds after which a file that seems unchanged is hashed again: a week, of which 8 GiB take three minutes from a card of 45 MB/s.
HASHED_FOR = 7 * 24 * 3600.0
#: Bytes after which a long hash says how far it is.
TELLS = 64 << 20


class RefusedError(Exception):
    """An artefact cannot be used, or the store cannot take it; the text says why."""


@dataclass(frozen=True)
class Model:
    """What the site says of one model's artefact. *units* are restarted when it changes."""

    name: str
    artefact: str
    url: str
    sha256: str
    size: int
    signature: str
    format: str
    architecture: str
    units: tuple[str, ...]

    @property
    def file(self) -> str:
        """Its name in `.files`."""
        return f"{self.sha256}.{self.format}"

    def statement(self) -> bytes:
        """What its signature is over: all that decides whether this is the file, and for what it is good."""
        said = (
            f"artefact {self.artefact}",
            f"format {self.format}",
            f"architecture {self.architecture}",
            f"size {self.size}",
            f"sha256 {self.sha256}",
        )
        return ("pinion artefact 1\n" + "\n".join(said) + "\n").encode()


@dataclass(frozen=True)
class Settings:
    """What the node is told: where models lie, how much they may take (bytes), the public key, and the models."""

    folder: Path
    budget: int
    key: str
    models: tuple[Model, ...]


def settings(path: Path) -> Settings:
    """What *path* says. Raises `ValueError`, naming what is wrong."""
    data = json.loads(path.read_text(encoding="utf-8"))
    models = tuple(_model(str(name), entry) for name, entry in data["models"].items())
    return Settings(Path(data["folder"]), int(data["budget"]), str(data["key"]), models)


def _model(name: str, entry: dict[str, object]) -> Model:
    found = Model(
        name=name,
        artefact=str(entry["artefact"]),
        url=str(entry["url"]),
        sha256=str(entry["sha256"]),
        size=int(str(entry["size"])),
        signature=str(entry["signature"]),
        format=str(entry["format"]),
        architecture=str(entry["architecture"]),
        units=tuple(map(str, entry["units"] if isinstance(entry["units"], list) else ())),
    )
    for what, value in (("model", name), ("artefact", found.artefact), ("architecture", found.architecture)):
        if not NAME.fullmatch(value):
            raise ValueError(f"{what} {value[:80]!r} is no name")
    if not DIGEST.fullmatch(found.sha256) or found.size < 1 or found.format not in FORMATS:
        raise ValueError(f"{name}: sha256, size or format is not what it must be")
    address = urllib.parse.urlsplit(found.url)
    parts = urllib.parse.unquote(address.path).split("/")
    if address.scheme not in {"http", "https"} or not address.hostname or address.username or ".." in parts:
        raise ValueError(f"{name}: {found.url[:200]!r} is no address of an artefact")
    if not found.url.isascii() or not found.url.isprintable() or " " in found.url or "\\" in found.url:
        raise ValueError(f"{name}: {found.url[:200]!r} has characters that no address has")
    return found


class Store:
    """The folder, and what one run does there."""

    def __init__(self, wanted: Settings) -> None:
        self.wanted, self.folder = wanted, wanted.folder
        self.files, self.partial = self.folder / ".files", self.folder / ".partial"

    def prepare(self) -> None:
        """Make the folders; unfinished links of a killed run go."""
        for folder in (self.files, self.partial):
            folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob("*/.new-*"):
            left.unlink()

    def links(self) -> Iterator[Path]:
        """Every `current` and `previous` that there is."""
        for folder in self.folder.iterdir():
            if NAME.fullmatch(folder.name) and folder.is_dir():
                yield from (folder / name for name in ("current", "previous") if (folder / name).is_symlink())

    def used(self, model: str, name: str = "current") -> str | None:
        """The name in `.files` that *model*'s link called *name* points at."""
        try:
            return (self.folder / model / name).readlink().name
        except OSError:
            return None

    def collect(self) -> None:
        """Throw away models that nobody states, then files that no link names, then parts that nobody wants."""
        names = {model.name for model in self.wanted.models}
        for link in list(self.links()):
            if link.parent.name not in names:
                shutil.rmtree(link.parent, ignore_errors=True)
                say(f"{link.parent.name}: no longer stated, taken away")
        kept = {link.readlink().name for link in self.links()} | {model.file for model in self.wanted.models}
        for file in self.files.iterdir():
            if file.name not in kept:
                say(f"{file.name}: not used any more, deleted")
                file.unlink()
        for mark in self.folder.glob(".seen/*"):
            if not (self.files / mark.name).exists():
                mark.unlink()
        digests = {model.sha256 for model in self.wanted.models}
        for part in self.partial.iterdir():
            if part.name not in digests:
                part.unlink()

    def here(self, model: Model) -> int:
        """Bytes of *model* that are on the disk, whole or on their way."""
        for path in (self.files / model.file, self.partial / model.sha256):
            with contextlib.suppress(OSError):
                return path.stat().st_size
        return 0

    def make_room(self, model: Model) -> None:
        """See that *model* fits into budget and disk. Raises `RefusedError` before a byte of it is fetched."""
        missing = model.size - self.here(model)
        for attempt in (1, 2):
            taken = sum(file.stat().st_size for file in self.files.iterdir())
            free = os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_frsize
            why = None
            if taken + model.size > self.wanted.budget:
                why = f"the store may take {mib(self.wanted.budget)} and has {mib(taken)}"
            elif missing + RESERVE > free:
                why = f"the disk has {mib(free)} free, of which {mib(RESERVE)} stay free"
            if why is None:
                return
            previous = self.used(model.name, "previous")
            if attempt == 2 or previous in {None, self.used(model.name), model.file}:
                raise RefusedError(
                    f"needs {mib(model.size)}, but {why}: raise concerns.model_store.budget_mib, or free the disk"
                )
            say(f"{model.name}: gives up its previous file for the new one: {why}")
            (self.folder / model.name / "previous").unlink()
            self.collect()

    def bring(self, model: Model) -> None:
        """Have *model*'s file in `.files`, right in every respect. Raises `RefusedError` or `OSError`."""
        verify_signature(model, self.wanted.key)
        place = self.files / model.file
        if self.unchanged(place, model.size) and self.lately(place):
            return
        if place.exists():
            if place.stat().st_size == model.size and self.digest(place) == model.sha256:
                self.note(place)
                return
            say(f"{model.name}: {place.name} was changed on the disk, fetching it anew")
            place.unlink()
        self.make_room(model)
        part = self.partial / model.sha256
        resumed = part.exists()
        fetch(model, part)
        if self.digest(part) != model.sha256:
            part.unlink()
            if not resumed:
                raise RefusedError(f"{model.url} gives another file: its SHA-256 is not {model.sha256}")
            say(f"{model.name}: what was fetched in parts is not the file, fetching it from the start")
            fetch(model, part)
            if self.digest(part) != model.sha256:
                part.unlink()
                raise RefusedError(f"{model.url} gives another file: its SHA-256 is not {model.sha256}")
        try:
            check_format(part, model)
        except RefusedError:
            part.unlink()
            raise
        part.chmod(0o644)
        if self.used(model.name) == model.file:
            # Who serves may still hold the file that was changed.
            (self.folder / model.name / ".tell").touch()
        part.replace(place)
        flush(self.files)
        self.note(place)

    def use(self, model: Model) -> bool:
        """Point `current` at *model*'s file and `previous` at what it was; whether that changed anything."""
        folder = self.folder / model.name
        before = self.used(model.name)
        if before == model.file:
            return False
        folder.mkdir(exist_ok=True)
        # Before the swap: a run that is killed after it finds that somebody has to be told.
        (folder / ".tell").touch()
        if before is not None and (self.files / before).exists():
            self._link(folder / "previous", before)
        self._link(folder / "current", model.file)
        flush(folder)
        say(f"{model.name}: {model.artefact} ({model.sha256[:12]}, {mib(model.size)}) is in use")
        return True

    def tell(self, model: Model) -> None:
        """Restart who uses *model*, when it changed."""
        mark = self.folder / model.name / ".tell"
        if mark.exists():
            if model.units:
                subprocess.run(["systemctl", "--no-block", "restart", *model.units], check=True, timeout=60)
            mark.unlink()

    def _link(self, link: Path, name: str) -> None:
        new = link.with_name(f".new-{link.name}")
        new.unlink(missing_ok=True)
        new.symlink_to(Path("..", ".files", name))
        new.replace(link)

    def digest(self, path: Path) -> str:
        """The SHA-256 of *path*; who asks meanwhile is told how far it is."""
        tell = self.folder / ".hashing"
        try:
            return digest_of(path, lambda done: write(tell, f"{mib(done)} are hashed"))
        finally:
            tell.unlink(missing_ok=True)

    def note(self, place: Path) -> None:
        """Remember *place* as it is now, and by the time of the note when it was hashed. edge-serve reads it too."""
        write(self.folder / ".seen" / place.name, json.dumps(marks(place)))

    def lately(self, place: Path) -> bool:
        """Whether *place* was hashed in the last week. A board whose clock is still that of long ago, just after a boot, may wait."""
        try:
            return time.time() - (self.folder / ".seen" / place.name).stat().st_mtime < HASHED_FOR
        except OSError:
            return False

    def unchanged(self, place: Path, size: int) -> bool:
        """Whether *place* is as it was when it was checked last."""
        try:
            return (
                marks(place) == json.loads((self.folder / ".seen" / place.name).read_text())
                and place.stat().st_size == size
            )
        except (OSError, ValueError):
            return False

    def wrong(self, model: Model, *, quick: bool) -> str | None:
        """What is wrong with *model* as it lies here, None when nothing is."""
        place = self.files / model.file
        if self.used(model.name) != model.file:
            hashed = ""
            with contextlib.suppress(OSError):
                hashed = ", " + (self.folder / ".hashing").read_text(encoding="utf-8")
            return f"{model.artefact} is not in use, {mib(self.here(model))} of {mib(model.size)} are here{hashed}"
        if quick:
            return None if self.unchanged(place, model.size) else f"{place.name} is not as it was checked"
        try:
            return None if digest_of(place) == model.sha256 else f"{place.name} was changed"
        except OSError as error:
            return str(error)


def fetch(model: Model, part: Path) -> None:
    """Get *model* into *part*, going on where it ends. Raises `RefusedError` when the server has something else, or nothing."""
    why, now = "", 0
    for attempt in range(1, TRIES + 1):
        have = part.stat().st_size if part.exists() else 0
        if have == model.size:
            return
        if have > model.size:
            part.unlink()
            have = 0
        try:
            _fetch_on(model, part, have)
        except urllib.error.HTTPError as error:
            if error.code == 416:
                part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in {408, 429}:
                raise RefusedError(f"{model.url}: HTTP {error.code}") from error
            why = f"HTTP {error.code}"
        except (OSError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
        else:
            why = "the connection ended early"
        now = part.stat().st_size if part.exists() else 0
        if now == model.size:
            return
        say(f"{model.name}: {mib(now)} of {mib(model.size)}: {why}")
        if attempt < TRIES:
            time.sleep(min(2.0**attempt, 30) / 4)
    raise RefusedError(f"{model.url}: {why}; the next run goes on from {mib(now)}")


def _fetch_on(model: Model, part: Path, have: int) -> None:
    """One connection's worth, from byte *have* on. Never writes more than the file's stated length."""
    request = urllib.request.Request(model.url, headers={"Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    opener = urllib.request.build_opener(_SameKind)
    with opener.open(request, timeout=PATIENCE) as response:
        if response.status == 206:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != have or found[2] not in {"*", str(model.size)}:
                part.unlink()
                raise RefusedError(
                    f"{model.url} has another file than is stated: {response.headers.get('Content-Range')}"
                )
        elif response.length not in {None, model.size}:
            raise RefusedError(f"{model.url} has {response.length} bytes, {model.size} are stated")
        with part.open("ab" if response.status == 206 else "wb") as file:
            left = model.size - file.tell()
            while chunk := response.read(min(CHUNK, left + 1)):
                if len(chunk) > left:
                    file.truncate(0)
                    raise RefusedError(f"{model.url} is longer than the {model.size} bytes that are stated")
                file.write(chunk)
                left -= len(chunk)
            file.flush()
            os.fsync(file.fileno())


class _SameKind(urllib.request.HTTPRedirectHandler):
    """Redirections within HTTP, and never from HTTPS to HTTP."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        kinds = (urllib.parse.urlsplit(req.full_url).scheme, urllib.parse.urlsplit(newurl).scheme)
        if kinds not in {("http", "http"), ("http", "https"), ("https", "https")}:
            raise RefusedError(f"{req.full_url} redirects to {newurl[:200]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def verify_signature(model: Model, key: str) -> None:
    """Check the Ed25519 signature over the statement with openssl(1). Raises `RefusedError`."""
    try:
        signature = base64.b64decode(model.signature, validate=True)
    except binascii.Error as error:
        raise RefusedError("its signature is no base64") from error
    with tempfile.TemporaryDirectory(prefix="model-store-") as name:
        folder = Path(name)
        for file, content in (("key", key.encode()), ("signature", signature), ("statement", model.statement())):
            (folder / file).write_bytes(content)
        command = [
            "openssl",
            "pkeyutl",
            "-verify",
            "-pubin",
            "-inkey",
            "key",
            "-rawin",
            "-in",
            "statement",
            "-sigfile",
            "signature",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RefusedError(
            f"its signature is not by the site's key ({(done.stdout + done.stderr).strip().splitlines()[0][:120]})"
        )


def check_format(path: Path, model: Model) -> None:
    """Ask the program beside this one whether *path* is what it is said to be. Raises `RefusedError`."""
    command = [
        sys.executable,
        "-I",
        str(Path(__file__).with_name(FORMAT_PROGRAM)),
        model.format,
        model.architecture,
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RefusedError((done.stdout + done.stderr).strip()[-300:])


def digest_of(path: Path, tell: Callable[[int], None] = lambda _: None) -> str:
    """The SHA-256 of *path*, in hex; *tell* hears now and then how many bytes are hashed."""
    digest, done, buffer = hashlib.sha256(), 0, memoryview(bytearray(CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            done += count
            if done % TELLS == 0:
                tell(done)
    return digest.hexdigest()


def marks(path: Path) -> list[int]:
    """What changes when a file is written to."""
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def write(path: Path, content: str) -> None:
    """Replace *path* by rename."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_name(f".{path.name}")
    with new.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def flush(folder: Path) -> None:
    """Have the names in *folder* on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mib(size: int) -> str:
    """A length for people."""
    return f"{size / 2**20:.1f} MiB"


def say(line: str) -> None:
    """One line for the journal."""
    print(line, flush=True)


def converge(store: Store) -> int:
    """Bring everything about; 1 when a model could not be had. One that cannot be had does not hold up the others."""
    store.prepare()
    with (store.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store.collect()
        status = 0
        for model in store.wanted.models:
            try:
                store.bring(model)
                store.use(model)
                store.tell(model)
            except (RefusedError, OSError, subprocess.SubprocessError) as error:
                say(f"{model.name}: REFUSED: {error}")
                status = 1
        store.collect()
    return status


def check(store: Store, *, quick: bool) -> int:
    """Tell what is wrong."""
    status = 0
    for model in store.wanted.models:
        if (why := store.wrong(model, quick=quick)) is not None:
            say(f"{model.name}: {why}")
            status = 1
    return status


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="model-store", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--check", action="store_true", help="change nothing, say what is wrong")
    parser.add_argument("--hash", action="store_true", help="with --check: hash what is in use again")
    options = parser.parse_args(arguments)
    try:
        store = Store(settings(options.config))
        if options.check:
            return check(store, quick=not options.hash)
        return converge(store)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"model-store: {error!r}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
