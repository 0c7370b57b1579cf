"""`down`: power an instance off and leave nothing of it but its disks; with `purge`, not even those."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pinion.lab import namespaces
from pinion.lab.engine_helpers import end_left
from pinion.lab.errors import LabError
from pinion.lab.machine import Machine
from pinion.lab.mounts import mounts, unmount_tree
from pinion.lab.network import OUT_OF_BAND, unwire
from pinion.lab.processes import Recorded, end
from pinion.lab.progress import Progress
from pinion.lab.state import InstanceState, JsonValue
from pinion.lab.up import holding
from pinion.lab.uplink_process import stop_uplink, uplink_process


@dataclass
class DownReport:
    """What `down` ended: machines, namespaces, the uplink. *purged*: the state folder is gone too."""

    instance: str
    machines: list[str] = field(default_factory=list)
    namespaces: int = 0
    uplink: bool = False
    purged: bool = False
    seconds: float = 0.0

    def as_json(self) -> dict[str, JsonValue]:
        """For ``--json``."""
        machines: list[JsonValue] = list(self.machines)
        return {
            "instance": self.instance,
            "machines": machines,
            "namespaces": self.namespaces,
            "uplink": self.uplink,
            "purged": self.purged,
            "seconds": round(self.seconds, 1),
        }


def down(store: InstanceState, progress: Progress, *, purge: bool = False) -> DownReport:
    """Take the instance down; fine when it is down already or never was. A running `up` is ended first. `LabError` names what resists."""
    report = DownReport(store.name)
    if not store.exists():
        return report
    _end_running_up(store, progress)
    with holding(store, progress):
        if helpers := end_left(store.name):
            progress.say("lab", f"ended {helpers} programs that a killed Pulumi engine had left")
        report.uplink = stop_uplink(store)
        names = store.machine_names()
        with ThreadPoolExecutor(max_workers=max(len(names), 1)) as pool:
            stopped = list(pool.map(lambda name: (name, Machine(store, name).stop(abruptly=purge)), names))
        report.machines = [name for name, busy in stopped if busy]
        report.namespaces = unwire(store, names)
        store.endpoints.unlink(missing_ok=True)
        if left := remains(store):
            raise LabError("not all gone: " + "; ".join(left))
        if purge:
            _purge(store)
            report.purged = True
    report.seconds = progress.elapsed
    return report


def _end_running_up(store: InstanceState, progress: Progress) -> None:
    """End an `up` that is under way: it can be killed at any moment."""
    running = Recorded.read(store.busy)
    if running is not None and running.alive() and running != Recorded.myself():
        progress.say("lab", f"ends the running command (process {running.pid})")
        end(running, patience=10.0)


def remains(store: InstanceState) -> list[str]:
    """What is left of the instance on this machine besides its files: processes, mounts, namespaces, in words."""
    names = store.machine_names()
    found = [f"process {process.pid} of {name}" for name in names if (process := Machine(store, name).process)]
    found += [f"process {process.pid} of the uplink"] if (process := uplink_process(store)) else []
    found += [f"mount {mount.point}" for mount in mounts() if store.root in mount.point.parents]
    found += [
        f"namespace {store.namespace(name)}"
        for name in (*names, OUT_OF_BAND)
        if namespaces.path_of(store.namespace(name)).exists()
    ]
    return found


def _purge(store: InstanceState) -> None:
    """Delete the state folder, never through a mount."""
    unmount_tree(store.root)
    # renamed first: a half-deleted folder must not look like an instance
    gone = Path(f"{store.root}.purged")
    shutil.rmtree(gone, ignore_errors=True)
    store.root.rename(gone)
    shutil.rmtree(gone)
