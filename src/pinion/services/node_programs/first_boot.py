#!/usr/bin/python3 -I
"""First boot of an image: the root over the whole card, the node's identity from the seed partition: first-boot [--root DIR --seed DIR].

Runs at every boot, before the network and SSH; when there is nothing new it changes nothing.

* The seed partition is the second of the disk that the root is on, FAT. ``identity.json`` names site, node and the SHA-256 of
  ``identity.tar``, which holds plain files with owner and mode. A tar that does not match its digest, or holds anything else, is refused.
* ``identity.json`` may name units to enable and start: services and timers called pinion-…, whose files are in the same tar. Nothing else.
* Every file is placed by rename, then the digest is noted in /var/lib/pinion/identity.json. Power may be cut at any moment: what is not
  noted is done again at the next boot.
* Once noted, the tar is overwritten and removed from the seed: it holds the host key and perhaps a token, and FAT has no owners.
  ``identity.json`` stays, so that the card still says whose it is. (A card's wear levelling may keep old blocks: retire it with care.)
* Another seed with another digest is applied at the next boot in the same way: that is how a node gets a new identity.

With --root and --seed it works on folders instead of the running system: units are enabled there, and nothing is mounted, grown or started.
Exit: 0 as wanted, 1 there is no identity, 2 the seed or the card is refused; the reason is on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

APPLIED = "var/lib/pinion/identity.json"
MOUNTED = Path("/run/pinion-seed")
SEED_NUMBER = 2
#: What is left at the end of a disk by whole mebibytes is no reason to grow.
SLACK_SECTORS = 4096
#: An identity is a few small files; more is a mistake or an attack.
LARGEST = 4 << 20
CA_FOLDER = PurePosixPath("usr/local/share/ca-certificates")
#: What programs of the node trust, and all of it in one file (update-ca-certificates(8)).
TRUSTED, BUNDLE = PurePosixPath("etc/ssl/certs"), "ca-certificates.crt"
UNIT_FOLDER = PurePosixPath("etc/systemd/system")
UNIT = re.compile(r"pinion-[a-z0-9-]+\.(?:service|timer)")
WANTED_BY = re.compile(r"^WantedBy=([a-z0-9-]+\.target)$", re.MULTILINE)


class RefusedError(Exception):
    """The seed or the card cannot be used; the message says why."""


@dataclass(frozen=True)
class Disk:
    """The disk that the running root is on: its name in /sys/class/block, and its partition with the root."""

    name: str
    root: str
    number: int

    def sibling(self, number: int) -> str | None:
        """The name of partition *number*, None when there is none."""
        for entry in Path("/sys/class/block", self.name).iterdir():
            found = entry / "partition"
            if found.is_file() and int(found.read_text()) == number:
                return entry.name
        return None


def running_disk() -> Disk | None:
    """The disk under /, None when the root is no partition (a container)."""
    device = Path("/").stat().st_dev
    here = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not (here / "partition").is_file():
        return None
    real = here.resolve()
    return Disk(real.parent.name, real.name, int((real / "partition").read_text()))


#: Seconds for one command: on a busy machine's emulation the longest takes five minutes, on a board a few seconds.
PATIENCE = 1200


def run(*argv: str, text: str | None = None) -> None:
    """Run a command; `RefusedError` when it fails."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise RefusedError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")


# --- the card ---------------------------------------------------------------------------------------------------------


def grow(disk: Disk) -> bool:
    """Let the last partition, which has the root, reach the end of the disk, and the file system with it; whether there was room."""
    sectors = int(Path("/sys/class/block", disk.name, "size").read_text())
    part = Path("/sys/class/block", disk.root)
    end = int((part / "start").read_text()) + int((part / "size").read_text())
    grown = sectors - end > SLACK_SECTORS
    if grown:
        if disk.sibling(disk.number + 1) is not None:
            raise RefusedError(f"/dev/{disk.root} is not the last partition: the root stays as large as it is")
        # one sector is written; power cut before or after, the table is whole
        run(
            "sfdisk",
            "--quiet",
            "--force",
            "--no-reread",
            "--no-tell-kernel",
            "-N",
            str(disk.number),
            f"/dev/{disk.name}",
            text=", +\n",
        )
        run("partx", "--update", "--nr", str(disk.number), f"/dev/{disk.name}")
    # also after a cut between the two: it does nothing to a file system that fills its partition
    run("resize2fs", f"/dev/{disk.root}")
    return grown


@contextlib.contextmanager
def seed_partition(disk: Disk) -> Iterator[Path]:
    """The seed partition, mounted read-only."""
    name = disk.sibling(SEED_NUMBER)
    if name is None:
        raise RefusedError(
            f"/dev/{disk.name} has no partition {SEED_NUMBER}: this card was not written from an image of ours"
        )
    MOUNTED.mkdir(mode=0o700, exist_ok=True)
    run("mount", "-t", "vfat", "-o", "ro,nodev,nosuid,noexec,umask=0077", f"/dev/{name}", str(MOUNTED))
    try:
        yield MOUNTED
    finally:
        with contextlib.suppress(RefusedError):
            run("umount", str(MOUNTED))


# --- the identity -----------------------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, object]:
    """The object in *path*; empty when it is missing or not whole."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def members(archive: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The files of the tar; `RefusedError` for anything but plain files below the root."""
    found = []
    try:
        with tarfile.open(archive, "r:") as tar:
            for entry in tar:
                path = PurePosixPath(entry.name)
                if not entry.isreg() or path.is_absolute() or ".." in path.parts or entry.size > LARGEST:
                    raise RefusedError(f"seed: {entry.name!r} is no plain file below the root")
                stream = tar.extractfile(entry)
                assert stream is not None
                found.append((entry, stream.read()))
    except (tarfile.TarError, OSError) as error:
        raise RefusedError(f"seed: identity.tar cannot be read: {error}") from None
    return found


def place(root: Path, entry: tarfile.TarInfo, content: bytes) -> None:
    """Put one file in place by rename."""
    target = root / entry.name
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            os.fchown(stream.fileno(), entry.uid, entry.gid)
            os.fchmod(stream.fileno(), entry.mode & 0o7777)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def units(stated: dict[str, object], files: list[tuple[tarfile.TarInfo, bytes]]) -> dict[str, str]:
    """The units that the seed wants enabled, each with the target that wants it. `RefusedError` for any that is not of this seed."""
    named = stated.get("units", [])
    if not isinstance(named, list):
        raise RefusedError("seed: identity.json: units is no list")
    brought = {entry.name: content for entry, content in files}
    found = {}
    for name in named:
        if not isinstance(name, str) or not UNIT.fullmatch(name):
            raise RefusedError(f"seed: {name!r} is no unit that an image may enable")
        content = brought.get(str(UNIT_FOLDER / name))
        if content is None:
            raise RefusedError(f"seed: unit {name} is to be enabled and is not in the seed")
        target = WANTED_BY.search(content.decode(errors="replace"))
        if target is None:
            raise RefusedError(f"seed: unit {name} is to be enabled and says no target that wants it (WantedBy=)")
        found[name] = target[1]
    return found


def enable(root: Path, name: str, target: str) -> None:
    """Have *target* want the unit *name*, as `systemctl enable` does it: a link, put in place by rename."""
    folder = root / UNIT_FOLDER / f"{target}.wants"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = folder / f".{name}.new"
    new.unlink(missing_ok=True)
    new.symlink_to(f"/{UNIT_FOLDER}/{name}")
    new.rename(folder / name)


def nothing(_placed: list[str], _units: list[str]) -> None:
    """The effect in a folder."""


def apply(root: Path, seed: Path, effect: Callable[[list[str], list[str]], None] = nothing) -> list[str]:
    """Place the seed's identity unless it is the one that is noted; the paths of what was placed. Raises `RefusedError`.

    *effect* is called with them, and the units that were enabled, before they are noted: again when it did not come to its end.
    """
    stated = read_json(seed / "identity.json")
    digest = stated.get("sha256")
    if not isinstance(digest, str):
        if read_json(root / APPLIED):
            return []
        raise LookupError("the seed partition holds no identity")
    if read_json(root / APPLIED).get("sha256") == digest:
        return []
    archive = seed / "identity.tar"
    try:
        content = archive.read_bytes()
    except OSError as error:
        raise RefusedError(f"seed: identity.json is there and identity.tar is not: {error}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise RefusedError(
            "seed: identity.tar is not the file that identity.json names (its SHA-256 differs); write the seed again"
        )
    files = members(archive)
    wanted = units(stated, files)
    for entry, data in files:
        place(root, entry, data)
    for name, target in wanted.items():
        enable(root, name, target)
    placed = sorted(entry.name for entry, _ in files)
    effect(placed, list(wanted))
    os.sync()
    whole = tarfile.TarInfo(APPLIED)
    whole.mode = 0o644
    whole.uid, whole.gid = os.geteuid(), os.getegid()
    place(root, whole, (json.dumps(stated | {"files": placed}, indent=1, sort_keys=True) + "\n").encode())
    os.sync()
    return placed


def wipe(root: Path, seed: Path) -> bool:
    """Overwrite and remove the tar, once what it holds is noted; whether it was there."""
    archive = seed / "identity.tar"
    digest = read_json(seed / "identity.json").get("sha256")
    if not archive.exists() or digest is None or read_json(root / APPLIED).get("sha256") != digest:
        return False
    with archive.open("r+b") as stream:
        stream.write(bytes(archive.stat().st_size))
        stream.flush()
        os.fsync(stream.fileno())
    archive.unlink()
    os.sync()
    return True


def trust(root: Path, certificates: list[str]) -> bool:
    """Have programs trust *certificates*, which were placed below *root*, beside those that they trust; False when it takes
    `update-ca-certificates`: that makes all anew and so also lets go of one that was replaced, in a thousand processes.
    """
    folder = root / TRUSTED
    links = {folder / f"{PurePosixPath(path).stem}.pem": path for path in certificates}
    if any(os.path.lexists(link) for link in links) or not (folder / BUNDLE).is_file():
        return False
    # the links first: a run that is cut from here on finds them, and then all is made anew
    for link, path in links.items():
        link.symlink_to(os.path.relpath(root / path, folder))
    whole = tarfile.TarInfo(str(TRUSTED / BUNDLE))
    whole.mode, whole.uid, whole.gid = 0o644, os.geteuid(), os.getegid()
    texts = [folder / BUNDLE, *(root / path for path in certificates)]
    place(root, whole, b"".join(text.read_bytes().rstrip(b"\n") + b"\n" for text in texts))
    run("openssl", "rehash", str(folder))
    return True


def take_effect(placed: list[str], enabled: list[str]) -> None:
    """What a running system has read already: its name, the bundle of authorities, and which units it has."""
    if "etc/hostname" in placed:
        Path("/proc/sys/kernel/hostname").write_text(Path("/etc/hostname").read_text())
    certificates = [path for path in placed if PurePosixPath(path).parent == CA_FOLDER]
    if certificates and not trust(Path("/"), certificates):
        run("update-ca-certificates")
    try:
        if enabled:
            run("systemctl", "daemon-reload")
            # this boot goes on meanwhile; they wait for what they need by themselves
            run("systemctl", "start", "--no-block", "--", *enabled)
    except RefusedError as refused:
        # they are enabled, so the next boot starts them; the rest of the identity must not wait for that
        print(f"first-boot: not started: {refused}", file=sys.stderr)


def on_this_system() -> None:
    """All of it, on the running system."""
    disk = running_disk()
    if disk is None:
        raise RefusedError(
            "the root is no partition of a disk: this is not a machine that was started from an image of ours"
        )
    try:
        if grow(disk):
            print(f"first-boot: /dev/{disk.root} reaches the end of the card")
    except RefusedError as refused:
        # a small root is a nuisance; a node without identity is lost
        print(f"first-boot: not grown: {refused}", file=sys.stderr)
    with seed_partition(disk) as seed:
        placed = apply(Path("/"), seed, take_effect)
        if placed:
            print(f"first-boot: identity of {read_json(seed / 'identity.json').get('node')}: {len(placed)} files")
        if (seed / "identity.tar").exists():
            run("mount", "-o", "remount,rw", str(seed))
            if wipe(Path("/"), seed):
                print("first-boot: identity.tar is gone from the seed")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="first-boot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, help="folder to place files in, instead of the running system's root")
    parser.add_argument(
        "--seed", type=Path, help="folder with identity.json and identity.tar, instead of the partition"
    )
    arguments = parser.parse_args()
    if (arguments.root is None) != (arguments.seed is None):
        parser.error("--root and --seed go together")
    try:
        if arguments.root is None:
            on_this_system()
        else:
            placed = apply(arguments.root, arguments.seed)
            wipe(arguments.root, arguments.seed)
            print(f"first-boot: {len(placed)} files")
    except LookupError as nothing:
        print(f"first-boot: {nothing.args[0]}", file=sys.stderr)
        return 1
    except RefusedError as refused:
        print(f"first-boot: {refused}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
