"""One lab machine: its file system, its boot under systemd-nspawn, its end.

Invariants: a machine runs at most once; its process is known by pid and start time from before it becomes nspawn; everything that it holds
(mounts, cgroups, nspawn's own traces) can be found again after a crash and is released by `stop`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pinion.lab import cgroups, namespaces, rootfs
from pinion.lab.errors import LabError
from pinion.lab.identity import MachineFile, machine_id
from pinion.lab.layers import LayerStore
from pinion.lab.mounts import mount_overlay, mounted, unmount_tree
from pinion.lab.parts import MachineNeeds
from pinion.lab.processes import Recorded, end, launch, run
from pinion.lab.state import InstanceState, JsonValue, read_json, write_json
from pinion.lab.topology import Node
from pinion.plan.model import DeviceKind

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NSPAWN_RUN = Path("/run/systemd/nspawn")
#: Terminal control sequences (ECMA-48) on the console.
_ESCAPES = re.compile(r"\x1b(\[[0-9;?!]*[A-Za-z]|\].*?(\x07|\x1b\\)|[()][A-Z0-9]|[=>cM78])|\r|\x07")
#: Seconds that a machine has to power off by itself; its units stop within 10.
_PATIENCE = 20.0
#: Exit code of `systemd-nspawn --keep-unit` when the machine asks for a reboot: as for a service, whoever started it is to do so again.
_REBOOT = 133
#: Nobody has units of their own in a lab machine, and each SSH login would start a service manager for them: half a second of CPU.
USER_SERVICES = "user@.service"


class Machine:
    """One machine of an instance. *node* is None for one that the plan no longer names (it can only be stopped)."""

    def __init__(self, state: InstanceState, name: str, node: Node | None = None) -> None:
        self.state = state
        self.name = name
        self.node = node
        self.folder = state.machine(name)
        self.namespace = state.namespace(name)

    # --- where things are ---------------------------------------------------------------------------------------------

    @property
    def role(self) -> DeviceKind:
        """What the machine is to the site."""
        if self.node is None:
            raise LabError(f"{self.name}: not in the plan any more")
        return self.node.kind

    @property
    def root(self) -> Path:
        """The machine's root, while it is mounted."""
        return self.folder / "root"

    @property
    def data(self) -> Path:
        """Folder of the machine's data that lies outside its overlay."""
        return self.folder / "data"

    @property
    def console(self) -> Path:
        """What the machine printed on its console."""
        return self.folder / "console.log"

    @property
    def host_key(self) -> Path:
        """The machine's private SSH host key, which `known_hosts` names (its public half beside it)."""
        return self.state.ssh / "host_keys" / self.name

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"

    @property
    def _booted(self) -> Path:
        return self.folder / "boot.json"

    @property
    def _cgroups(self) -> Path:
        return self.folder / "cgroups.json"

    @property
    def _nspawn_name(self) -> str:
        """nspawn's name of the machine: at most 64 characters (HOST_NAME_MAX), unique on this machine."""
        name = f"pin-{self.state.name}-{self.name}"
        return name if len(name) <= 64 else f"pin-{hashlib.sha256(name.encode()).hexdigest()[:40]}"

    # --- what it does -------------------------------------------------------------------------------------------------

    @property
    def process(self) -> Recorded | None:
        """The running nspawn process, None when the machine does not run."""
        recorded = Recorded.read(self._record)
        return recorded if recorded is not None and recorded.alive() else None

    @property
    def leader(self) -> int | None:
        """The pid of the machine's own pid 1, None when there is none (yet)."""
        process = self.process
        if process is None:
            return None
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                status = Path(f"/proc/{child}/status").read_text()
                numbers = next(line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
                if len(numbers) > 1 and numbers[-1] == "1":
                    return int(child)
        return None

    def booted_with(self) -> dict[str, JsonValue]:
        """What the running machine was booted with; empty when it does not run, or runs in a namespace that is not its own any more."""
        leader = self.leader
        if leader is None or mounted(self.root) is None:
            return {}
        with contextlib.suppress(OSError):
            if Path(f"/proc/{leader}/ns/net").stat().st_ino == namespaces.path_of(self.namespace).stat().st_ino:
                return read_json(self._booted)
        return {}

    def run(
        self,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002 - the name of subprocess
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run *argv* inside the running machine, as root in all its namespaces. `LabError` as `processes.run`."""
        leader = self.leader
        if leader is None:
            raise LabError(f"{self.name}: does not run; see {self.console}")
        flags = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        environment = ["env", "-i", _PATH, "LANG=C.UTF-8", "HOME=/root", "TERM=dumb"]
        return run(
            ["nsenter", "--target", str(leader), *flags, "--", *environment, *argv],
            input=input,
            timeout=timeout,
            check=check,
        )

    def in_network(
        self,
        argv: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002 - the name of subprocess
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run *argv* with this machine's programs and files in the lab machine's network namespace."""
        return run(namespaces.command(self.namespace, list(argv)), input=input, timeout=timeout, check=check)

    def connect(self, host: str, port: int, timeout: float = 5.0) -> socket.socket:
        """A TCP connection from the machine's network position; OSError as `socket.connect` raises it."""
        return namespaces.connect(self.namespace, host, port, timeout)

    def write(self, path: str, content: str | bytes, mode: int = 0o644, owner: int = 0, group: int = 0) -> bool:
        """Replace file *path* in the machine's root (mounted, booted or not); whether that changed anything."""
        return rootfs.write(self.root, path, content, mode, owner, group)

    def path(self, path: str) -> Path:
        """Where *path* of the machine lies on this machine, links followed inside the root."""
        return rootfs.inside(self.root, path)

    def data_path(self, path: str) -> Path:
        """Where the data folder *path* of the machine (one of `MachineNeeds.data`) lies on this machine."""
        return self.data / path.strip("/").replace("/", "-")

    def equipment(self) -> tuple[str, ...] | None:
        """The packages that its disk was born with beside those of the parts; None while it has no disk."""
        image = read_json(self.folder / "image.json")
        listed = image.get("packages", [])
        return tuple(map(str, listed)) if image and isinstance(listed, list) else None

    def account(self, name: str) -> tuple[int, int]:
        """User and group number of account *name* in the machine."""
        return rootfs.account(self.root, name)

    # --- its life -----------------------------------------------------------------------------------------------------

    def mount(self, needs: MachineNeeds, layers: LayerStore) -> bool:
        """Mount the root of a machine that does not run. A changed image gets a fresh disk; returns whether it did (or it is the first)."""
        if needs.layer is None:
            raise LabError(f"{self.name}: no layer to boot from")
        self.folder.mkdir(mode=0o700, exist_ok=True)
        unmount_tree(self.root)
        image = self.folder / "image.json"
        fresh = read_json(image).get("key") != needs.layer.key
        if fresh:
            image.unlink(missing_ok=True)
            for folder in (self.folder / "upper", self.folder / "work"):
                shutil.rmtree(folder, ignore_errors=True)
        mount_overlay(layers.ensure(needs.layer), self.folder / "upper", self.folder / "work", self.root)
        equipment: list[JsonValue] = list(needs.equipment)
        write_json(image, {"key": needs.layer.key, "name": needs.layer.name, "packages": equipment})
        self.data.mkdir(mode=0o755, exist_ok=True)
        for path in needs.data:
            self.data_path(path).mkdir(mode=0o755, exist_ok=True)
        return fresh

    def identify(self, files: Mapping[str, MachineFile]) -> set[str]:
        """Write the files of the machine's identity; returns the paths that changed. Good for a running machine too."""
        return {
            path
            for path, file in files.items()
            if rootfs.write(self.root, path, file.content, file.mode, file.owner, file.group)
        }

    def enable(self, needs: MachineNeeds) -> None:
        """Enable and mask units for the next boot, and undo what an earlier boot had and this one does not name."""
        record = self.folder / "units.json"
        before = read_json(record)
        wanted: dict[str, tuple[str, ...]] = {
            "enable": (*needs.units, *(("ssh.service",) if needs.sshd else ())),
            "mask": (*needs.masks, *((USER_SERVICES,) if needs.sshd else ("ssh.service", "ssh.socket"))),
        }
        for verb, undo in (("mask", "unmask"), ("enable", "disable")):
            old = before.get(verb)
            gone = (
                [unit for unit in old if isinstance(unit, str) and unit not in wanted[verb]]
                if isinstance(old, list)
                else []
            )
            for action, units in ((undo, gone), (verb, list(wanted[verb]))):
                if units:
                    run(["chroot", str(self.root), "systemctl", "--quiet", action, *units])
        write_json(record, {verb: list(units) for verb, units in wanted.items()})

    def specification(self, needs: MachineNeeds) -> dict[str, JsonValue]:
        """Everything that takes a new boot to change."""
        content = json.dumps([self._arguments(needs), needs.units, needs.masks, needs.sshd, needs.revision, [
            str(part) for part in (needs.layer.key if needs.layer else "", *sorted(needs.data))
        ]])  # fmt: skip
        return {
            "digest": hashlib.sha256(content.encode()).hexdigest(),
            "layer": needs.layer.folder if needs.layer else "",
        }

    def _arguments(self, needs: MachineNeeds) -> list[str]:
        """The command line of nspawn."""
        binds = [f"--bind{'-ro' if bind.read_only else ''}={bind.source}:{bind.target}" for bind in needs.binds]
        binds += [f"--bind={self.data_path(path)}:{path}" for path in needs.data]
        return [
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--settings=no", "--boot", f"--directory={self.root}",
            f"--machine={self._nspawn_name}", f"--hostname={self.name}", f"--uuid={machine_id(self.state.name, self.name)}",
            f"--network-namespace-path={namespaces.path_of(self.namespace)}", "--capability=CAP_NET_ADMIN", "--resolv-conf=off",
            "--timezone=off", "--link-journal=no", "--console=read-only", "--setenv=SYSTEMD_COLORS=0", *binds, *needs.nspawn,
        ]  # fmt: skip

    def boot(self, needs: MachineNeeds, held: int | None = None) -> None:
        """Start the machine; *held* as for `processes.launch`. `LabError` when something that it binds is missing."""
        for bind in needs.binds:
            if not bind.source.exists():
                raise LabError(f"{self.name}: {bind.source} (shown as {bind.target}) is not there; obtain it first")
        self._clear_traces()
        groups = cgroups.folders(self.state.name, self.name)
        write_json(self._cgroups, {"folders": [str(group) for group in groups]})
        # everybody waits for the management host: it has the most to do
        cgroups.create(self.state.name, self.name, weight=4.0 if self.role is DeviceKind.MANAGEMENT_HOST else 1.0)
        write_json(self._booted, self.specification(needs))
        launch(
            self._arguments(needs),
            record=self._record,
            log=self.console,
            cgroup_files=[group / "cgroup.procs" for group in groups],
            # a machine's own network parameters can be set in it, as on hardware; the rest of /proc/sys stays read-only
            env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"},
            held=held,
            again=_REBOOT,
        )

    def waits_for(self, needs: MachineNeeds) -> str | None:
        """None when the booted machine answers, else what it waits for. `LabError` when it has died."""
        if self.process is None:
            raise LabError(f"{self.name}: ended during boot; the end of {self.console}:\n{self.last_words()}")
        if self.leader is None:
            return "systemd"
        if needs.sshd:
            try:
                with self.connect("127.0.0.1", 22, timeout=2.0) as connection:
                    return None if connection.recv(4) == b"SSH-" else "an SSH banner"
            except OSError:
                return "sshd"
        with contextlib.suppress(LabError):
            if (
                self.run(
                    ["systemctl", "is-active", "--quiet", "multi-user.target"], check=False, timeout=10.0
                ).returncode
                == 0
            ):
                return None
        return "multi-user.target"

    def last_words(self, lines: int = 12) -> str:
        """The end of the console log."""
        with contextlib.suppress(OSError):
            plain = _ESCAPES.sub("", self.console.read_text(errors="replace"))
            return "\n".join([line for line in plain.splitlines() if line.strip()][-lines:])
        return ""

    def stop(self, *, abruptly: bool = False) -> bool:
        """Power the machine off and release all that it holds, but its disk; whether there was anything to do.

        *abruptly*: as when the power goes, for a machine whose disk nobody wants any more.
        """
        busy = mounted(self.root) is not None or self._cgroups.exists()
        process = self.process
        if process is not None:
            busy = True
            end(process, gently=signal.SIGKILL if abruptly else signal.SIGTERM, patience=_PATIENCE)
        listed = read_json(self._cgroups).get("folders")
        if isinstance(listed, list):
            cgroups.remove([Path(folder) for folder in listed if isinstance(folder, str)])
        unmount_tree(self.root)
        self._clear_traces()
        for record in (self._record, self._record.with_suffix(".json.new"), self._booted, self._cgroups):
            record.unlink(missing_ok=True)
        return busy

    def _clear_traces(self) -> None:
        """Remove what nspawn leaves under /run when it is killed."""
        for trace in (_NSPAWN_RUN / "propagate" / self._nspawn_name, _NSPAWN_RUN / "unix-export" / self._nspawn_name):
            if trace.exists():
                unmount_tree(trace)
                with contextlib.suppress(OSError):
                    trace.rmdir()
        for stale in self.folder.glob(".#*.lck"):
            stale.unlink(missing_ok=True)

    def wait(self, needs: MachineNeeds, timeout: float, say: Callable[[str], None]) -> None:
        """Wait until the machine answers; `LabError` after *timeout* seconds."""
        deadline = time.monotonic() + timeout
        while waiting := self.waits_for(needs):
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.name}: still waits for {waiting} after {timeout:.0f} s; the end of {self.console}:\n{self.last_words()}"
                )
            say(waiting)
            time.sleep(0.15)
