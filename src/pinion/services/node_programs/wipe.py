#!/usr/bin/python3 -I
"""Wipe what Pinion's concerns keep on this host: wipe [--check] REQUEST. For a host that leaves its site.

REQUEST is JSON: `units` to stop and disable, and `data`, in order: each a `path` and whether it is `secret`. Secret files are overwritten
with random bytes before they are removed; everything is removed; then free blocks are trimmed. Symbolic links are removed and not followed.
It may be killed and run again. One JSON object on standard output says what was done. Exit: 0 all is gone, 2 something could not be wiped.
With --check nothing is changed, and the answer says what is there.

What a flash medium keeps in blocks that it has set aside, no program on the host can reach: the answer names the medium.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Nothing outside of these is ever touched.
PLACES = ("/var/lib/", "/run/", "/etc/pinion/")
_CHUNK = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """The program; its exit code."""
    parser = argparse.ArgumentParser(prog="wipe")
    parser.add_argument("request")
    parser.add_argument("--check", action="store_true")
    stated = parser.parse_args(arguments)
    try:
        request = json.loads(stated.request)
        units = [str(name) for name in request["units"]]
        data = [(str(entry["path"]), bool(entry["secret"])) for entry in request["data"]]
        answer = look(data) if stated.check else wipe(units, data)
    except (ValueError, KeyError, TypeError, OSError) as error:
        print(f"wipe: {error}", file=sys.stderr)
        return 2
    print(json.dumps(answer))
    return 2 if answer["failed"] else 0


def look(data: Sequence[tuple[str, bool]], places: Sequence[str] = PLACES) -> dict[str, object]:
    """What is there."""
    found = [{"path": path, **count(path, places)} for path, _ in data]
    return {"there": [entry for entry in found if entry["there"]], "media": media(data), "failed": []}


def wipe(units: Sequence[str], data: Sequence[tuple[str, bool]], places: Sequence[str] = PLACES) -> dict[str, object]:
    """Stop *units*, then wipe *data* in its order."""
    for path, _ in data:
        _allowed(path, places)
    known = media(data)
    stopped, failed = stop(units)
    wiped: list[dict[str, object]] = []
    filesystems = {mount(path) for path, _ in data if os.path.lexists(path)}
    for path, secret in data:
        counted = count(path, places)
        if not counted["there"]:
            continue
        try:
            clear(Path(path), secret=secret)
        except OSError as error:
            failed.append(f"{path}: {error}")
        else:
            wiped.append({"path": path, "overwritten": secret, **counted})
    os.sync()
    trimmed = {place: trim(place) for place in sorted(filesystems)}
    return {"stopped": stopped, "wiped": wiped, "trimmed": trimmed, "media": known, "failed": failed}


def _allowed(path: str, places: Sequence[str]) -> None:
    parts = Path(path).parts
    if ".." in parts or not any(path.startswith(place) and len(path.rstrip("/")) > len(place) for place in places):
        raise ValueError(f"{path} is not below {', '.join(places)}: not touched")


def count(path: str, places: Sequence[str]) -> dict[str, object]:
    """Whether *path* is there, and how many files and bytes it holds."""
    _allowed(path, places)
    files = [entry for entry in entries(Path(path)) if not entry.is_dir() or entry.is_symlink()]
    size = sum(entry.lstat().st_size for entry in files)
    return {"there": os.path.lexists(path), "files": len(files), "bytes": size}


def entries(path: Path) -> Iterator[Path]:
    """*path* and all below it, what is inside of a folder before the folder; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        for inner in sorted(path.iterdir()):
            yield from entries(inner)
    if os.path.lexists(path):
        yield path


def clear(path: Path, *, secret: bool) -> None:
    """Remove *path* with all below it; a *secret*'s files are overwritten first."""
    for entry in list(entries(path)):
        if secret and entry.is_file() and not entry.is_symlink():
            overwrite(entry)
    for entry in list(entries(path)):
        if entry.is_dir() and not entry.is_symlink():
            entry.rmdir()
        else:
            entry.unlink(missing_ok=True)


def overwrite(path: Path) -> None:
    """Random bytes over the whole of a file, on the medium before this returns."""
    with path.open("r+b", buffering=0) as file:
        left = os.fstat(file.fileno()).st_size
        while left > 0:
            left -= file.write(os.urandom(min(left, _CHUNK))) or 0
        os.fsync(file.fileno())


def stop(units: Sequence[str]) -> tuple[list[str], list[str]]:
    """Stop and disable those of *units* that there are; what was stopped, and what refused."""
    stopped, failed = [], []
    for unit in units:
        asked = ["systemctl", "show", "--property=LoadState", "--value", unit]
        if _run(asked)[1].strip() != "loaded":
            continue
        _run(["systemctl", "disable", unit])
        code, said = _run(["systemctl", "stop", unit])
        if code == 0:
            stopped.append(unit)
        else:
            failed.append(f"{unit}: {said.strip()}")
    return stopped, failed


def media(data: Sequence[tuple[str, bool]]) -> list[str]:
    """The media that the data lies on, as far as the kernel names them."""
    found = {medium(path) for path, _ in data if os.path.lexists(path)}
    return sorted(found)


def medium(path: str) -> str:
    """What *path* lies on: the block device, and what kind it is."""
    number = os.lstat(path).st_dev
    try:
        device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return f"{filesystem(path)}, no block device of its own"
    whole = device.parent if (device / "partition").exists() else device
    try:
        turns = (whole / "queue/rotational").read_text().strip() == "1"
    except OSError:
        turns = False
    kind = "SD card or eMMC" if whole.name.startswith("mmcblk") else "disk" if turns else "flash"
    return f"{whole.name}, {kind}"


def filesystem(path: str) -> str:
    """The kind of filesystem that *path* lies on."""
    return _run(["findmnt", "-n", "-o", "FSTYPE", "-T", path])[1].strip() or "a filesystem"


def mount(path: str) -> str:
    """Where the filesystem of *path* is mounted."""
    return _run(["findmnt", "-n", "-o", "TARGET", "-T", path])[1].strip() or "/"


def trim(place: str) -> str:
    """Tell the medium which blocks of the filesystem at *place* are free; what came of it."""
    code, said = _run(["fstrim", "-v", place])
    words = said.strip().splitlines()[-1:] or ["no answer"]
    return words[0] if code == 0 else f"not trimmed: {words[0]}"


def _run(argv: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout or done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
