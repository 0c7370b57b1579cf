"""Control groups: every machine gets one of its own in each hierarchy, cgroup v1, hybrid or v2.

systemd-nspawn with --keep-unit puts its payload below the group it is started in. Started in one group, two machines would share a tree and
each systemd would take the other's services for its own; so the launcher enters a fresh group first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.mounts import mounts


def _bases() -> list[tuple[Path, bool]]:
    """For each mounted hierarchy the folder below which we may make groups, and whether it is v2.

    v1: our own group, so that whatever limits us limits the lab. v2: the root, because a group with processes cannot have children with
    controllers.
    """
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    found: list[tuple[Path, bool]] = []
    for mount in mounts():
        if mount.kind == "cgroup2":
            found.append((mount.point, True))
        elif mount.kind == "cgroup":
            path = next(
                (
                    path
                    for names, path in own.items()
                    if names and set(names.split(",")) <= set(mount.options.split(","))
                ),
                "/",
            )
            below = path.removeprefix(mount.root if mount.root != "/" else "").lstrip("/")
            base = mount.point / below
            found.append((base if base.is_dir() else mount.point, False))
    return found


def folders(*names: str) -> list[Path]:
    """Where the group ``pinion/<names…>`` lies in every hierarchy, made or not: to be recorded before `create`."""
    return [base.joinpath("pinion", *names) for base, _ in _bases()]


#: Weight of all labs together where every process outside a group weighs as much as a group (cgroup v1): as eight busy processes.
_TOGETHER = 8.0


def create(*names: str, weight: float = 1.0) -> None:
    """Create the group ``pinion/<names…>`` in every hierarchy, or find it there; *weight* is its share of the processor among its siblings.

    Raises `LabError` when the kernel refuses.
    """
    try:
        for base, unified in _bases():
            folder = base
            for name in ("pinion", *names):
                if unified:
                    _delegate(folder)
                child = folder / name
                child.mkdir(exist_ok=True)
                _inherit_cpuset(folder, child)
                folder = child
            if not unified:
                _weigh(base / "pinion", _TOGETHER)
            _weigh(folder, weight)
    except OSError as error:
        raise LabError(
            f"{error.filename}: cgroup cannot be made: {error.strerror}; the lab needs root and writable cgroups"
        ) from error


def _weigh(folder: Path, weight: float) -> None:
    """Set the processor's share of a group: 1.0 is the kernel's default of 1024 shares (v1) or weight 100 (v2)."""
    for key, one in (("cpu.shares", 1024), ("cpu.weight", 100)):
        if (folder / key).exists():
            (folder / key).write_text(str(int(one * weight)))


def _delegate(folder: Path) -> None:
    """Let children of a v2 group have the controllers that the group has; what is refused stays off."""
    try:
        controllers = (folder / "cgroup.controllers").read_text().split()
    except OSError:
        return
    for controller in controllers:
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(parent: Path, child: Path) -> None:
    """A v1 cpuset without CPUs and memory nodes takes no process; give it its parent's."""
    for key in ("cpuset.cpus", "cpuset.mems"):
        if (child / key).exists() and (child / "tasks").exists() and not (child / key).read_text().strip():
            (child / key).write_text((parent / key).read_text())


def processes(groups: list[Path]) -> set[int]:
    """Every process in or below *groups*. A pid outside our pid namespace reads as 0 and is left out."""
    found: set[int] = set()
    for folder in groups:
        for directory, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in (Path(directory) / "cgroup.procs").read_text().split()}
    return found - {0}


def remove(groups: list[Path], *, patience: float = 5.0) -> None:
    """Kill what is left in *groups* (and below) and remove them, with parents of ours that are empty.

    Raises `LabError` when a process does not go within *patience* seconds.
    """
    deadline = time.monotonic() + patience
    present = [folder for folder in groups if folder.is_dir()]
    while left := processes(present):
        if time.monotonic() > deadline:
            raise LabError(f"processes {sorted(left)}: still in cgroup {present[0]} after SIGKILL")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for folder in present:
        while folder.is_dir() and not _remove_tree(folder):
            if time.monotonic() > deadline:
                raise LabError(f"{folder}: cgroup cannot be removed")
            time.sleep(0.02)
        for parent in folder.parents:
            if "pinion" not in parent.parts[1:]:
                break
            with contextlib.suppress(OSError):
                parent.rmdir()


def _remove_tree(folder: Path) -> bool:
    """Remove the groups of a tree, leaves first; whether all are gone (a dying process keeps its group for a moment)."""
    for directory, _, _ in os.walk(folder, topdown=False):
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
