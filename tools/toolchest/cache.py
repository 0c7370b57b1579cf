"""The cache of obtained tools: checked on every use, filled by atomic rename, safe to kill at any moment.

<cache>/tools/<tool>/<version>-<recipe digest>/bin/<program>   and stamp.json with the SHA-256 of each file
<cache>/tools/<tool>/<version>-<recipe digest>/lib/…           what its programs load, where they do not stand alone
<cache>/bin/<program>                                          a link to it: the folder that others put on PATH
<cache>/locks/<tool>.lock                                      held while somebody obtains the tool
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from toolchest.recipes import Tool

STAMP = "stamp.json"
CHUNK = 1 << 20


def default_root() -> Path:
    """Return $PINION_CACHE, by default /var/cache/pinion."""
    return Path(os.environ.get("PINION_CACHE") or "/var/cache/pinion")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader, or a crash, sees the old or the new content and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    temporary.write_text(text)
    temporary.replace(path)


def point_link(link: Path, target: Path) -> None:
    """Make `link` point at `target`, replacing by rename whatever was there."""
    link.parent.mkdir(parents=True, exist_ok=True)
    temporary = link.with_name(f".{link.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


@dataclass(frozen=True)
class Held:
    """What a tool's place in the cache holds: `reason` is empty when every file is as it was stored."""

    reason: str
    source: str = ""
    detail: str = ""
    seconds: float = 0.0


class Cache:
    """The folders of one cache root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.downloads = root / "downloads"

    def place(self, tool: Tool) -> Path:
        """Return the folder that holds this tool when it was obtained."""
        return self.root / "tools" / tool.name / f"{tool.version}-{tool.digest}"

    def check(self, tool: Tool) -> Held:
        """Compare every file of the tool with its stamp."""
        place = self.place(tool)
        if not place.exists():
            return Held("not obtained yet")
        try:
            stamp = json.loads((place / STAMP).read_text())
            files: dict[str, str] = dict(stamp["files"])
            held = Held("", str(stamp["source"]), str(stamp["detail"]), float(stamp["seconds"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            return Held(f"its stamp is unreadable ({error.__class__.__name__})")
        for program in tool.programs:
            path = place / "bin" / program
            if program not in files:
                return Held(f"{program} is not in the stamp")
            try:
                if sha256_of(path) != files[program]:
                    return Held(f"{program} differs from what was stored")
            except OSError as error:
                return Held(f"{program}: {error.strerror}")
            if not os.access(path, os.X_OK):
                return Held(f"{program} is not executable")
        for name in files.keys() - set(tool.programs):
            try:
                if sha256_of(place / name) != files[name]:
                    return Held(f"{name} differs from what was stored")
            except OSError as error:
                return Held(f"{name}: {error.strerror}")
        return held

    def check_all(self, tools: tuple[Tool, ...]) -> dict[str, Held]:
        """Check many tools at once; hashing releases the interpreter lock, so threads help."""
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            return dict(zip((tool.name for tool in tools), pool.map(self.check, tools), strict=True))

    @contextlib.contextmanager
    def staging(self, tool: Tool) -> Iterator[Path]:
        """Give an empty folder on the cache's own file system; what earlier, killed runs left there goes.

        The caller holds the tool's lock.
        """
        parent = self.place(tool).parent
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(".new-*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = parent / f".new-{os.getpid()}"
        (folder / "bin").mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, tool: Tool, staged: Path, source: str, detail: str, seconds: float) -> Path:
        """Stamp a staged folder and rename it into place; a broken one that stood there is replaced."""
        files: dict[str, str] = {}
        for program in tool.programs:
            path = staged / "bin" / program
            path.chmod(0o755)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            files[program] = sha256_of(path)
        for path in sorted(path for path in (staged / "lib").rglob("*") if path.is_file()):
            files[str(path.relative_to(staged))] = sha256_of(path)
        stamp = {
            "tool": tool.name, "version": tool.version, "recipe": tool.digest, "source": source, "detail": detail,
            "seconds": round(seconds, 1), "files": files,
        }  # fmt: skip
        with (staged / STAMP).open("w") as file:
            file.write(json.dumps(stamp, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        place = self.place(tool)
        if place.exists():
            broken = place.with_name(f".new-broken-{os.getpid()}")
            place.rename(broken)
            shutil.rmtree(broken, ignore_errors=True)
        staged.rename(place)
        return place

    def link(self, programs: dict[str, Path]) -> None:
        """Point <cache>/bin/<program> at each path."""
        for program, path in programs.items():
            link = self.bin / program
            if not (link.is_symlink() and link.readlink() == path):
                point_link(link, path)

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        """Hold a lock of this cache across processes and threads; yields False when it is taken and `wait` is not set."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def note_stage(self, tool: str, stage: str, estimate_seconds: float) -> None:
        """Leave word of what goes on with a tool, for anyone who waits for it."""
        note = {"stage": stage, "since": time.time(), "estimate_seconds": round(estimate_seconds), "pid": os.getpid()}
        write_atomically(self.root / "tools" / tool / "stage.json", json.dumps(note) + "\n")

    def build_seconds(self, tool: Tool) -> float | None:
        """Return how long this machine once took to build the tool, or None."""
        try:
            history = json.loads((self.root / "tools" / tool.name / "history.json").read_text())
            return float(history["go"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remember_build(self, tool: Tool, seconds: float) -> None:
        """Keep the longest time of a Go build seen here: a warm build cache would make the estimate a wish."""
        longest = max(seconds, self.build_seconds(tool) or 0.0)
        write_atomically(self.root / "tools" / tool.name / "history.json", json.dumps({"go": round(longest, 1)}) + "\n")
