"""The folder of named network namespaces, which the lab shares with iproute2, CNI plugins and VPNs.

iproute2 has the folder be a mount of itself, shared, before it adds its first namespace (CNI's plugins do the same). When it was no mount
until then, whatever others had mounted in it is covered: still seen through copies, and no longer to be unmounted by its path. So the lab
makes the folder such a mount itself before it mounts anything there; and where somebody was faster, it uncovers what is below.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pinion.lab.mounts import Mount, mounts
from pinion.lab.processes import run

FOLDER = Path("/run/netns")
#: Where namespaces have a second name while the folder is mounted anew.
ASIDE = Path("/run/pinion-netns")


def is_namespace(path: Path) -> bool:
    """Whether *path* leads to a namespace: asked of the path, since mountinfo also has mounts that another one covers."""
    try:
        return path.stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Be alone at the folder: iproute2 takes the same lock while it makes the folder a mount."""
    FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def prepare() -> None:
    """Have the folder be a shared mount of itself, so that nobody has a reason to cover what is in it."""
    if _layers() and not _covered() and not _put_aside():
        run(["mount", "--make-shared", str(FOLDER)])
    else:
        _mount_anew()


def uncover() -> None:
    """Have no namespace be covered by a mount of the folder; all namespaces stay, with their names."""
    if _covered() or _put_aside():
        _mount_anew()


def leave() -> None:
    """Take the mount away when nothing is in the folder any more."""
    while _layers() and not any(FOLDER.iterdir()):
        run(["umount", "--lazy", str(FOLDER)])


def _mount_anew() -> None:
    """Mount the folder once, and every namespace in that. Killed in between, the next call goes on from what was put aside."""
    _put_all_aside()
    while _layers():
        run(["umount", "--lazy", str(FOLDER)])
        _put_all_aside()
    for path in _mounted_in(FOLDER):
        run(["umount", "--lazy", str(path)])
    run(["mount", "--bind", str(FOLDER), str(FOLDER)])
    run(["mount", "--make-shared", str(FOLDER)])
    for aside in _put_aside():
        path = FOLDER / aside.name
        path.touch()
        run(["mount", "--bind", str(aside), str(path)])
        _forget(aside)
    ASIDE.rmdir()


def _put_all_aside() -> None:
    """Give each namespace that has a name in the folder, and none aside, the same name there."""
    ASIDE.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in _mounted_in(FOLDER):
        aside = ASIDE / path.name
        if not is_namespace(aside):
            aside.touch()
            run(["mount", "--bind", str(path), str(aside)])


def _put_aside() -> list[Path]:
    """The namespaces that were put aside and not yet back."""
    return _mounted_in(ASIDE)


def _forget(aside: Path) -> None:
    run(["umount", "--lazy", str(aside)])
    aside.unlink()


def _mounted_in(folder: Path) -> list[Path]:
    """The paths in *folder* that lead to a namespace."""
    return sorted(path for path in folder.iterdir() if is_namespace(path)) if folder.is_dir() else []


def _layers() -> list[Mount]:
    """The mounts of the folder itself, the one that is seen first."""
    found = {mount.number: mount for mount in mounts()}
    layers, seen = [], found.get(_seen())
    while seen is not None and seen.point == FOLDER:
        layers.append(seen)
        seen = found.get(seen.carrier)
    return layers


def _covered() -> list[Mount]:
    """The mounts in the folder that no path leads to, since the folder was mounted over itself after they were.

    Not those in a peer of the mount that is seen: what happens to a namespace in the one happens to it in the other.
    """
    found = {mount.number: mount for mount in mounts()}
    layers = _layers()
    below = {layer.carrier for layer in layers if found[layer.carrier].peers != (layers[0].peers or None)}
    return [mount for mount in found.values() if mount.point.parent == FOLDER and mount.carrier in below]


def _seen() -> int:
    """The number of the mount that a path to the folder leads to (proc(5), fdinfo)."""
    descriptor = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    finally:
        os.close(descriptor)
    return int(next(line.split()[1] for line in lines if line.startswith("mnt_id:")))
