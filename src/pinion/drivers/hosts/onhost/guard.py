"""One run at a time, and confirm-or-undo: the host itself undoes a change that could lock us out unless somebody logs in and confirms it.

The undo is a shell script in the concern's guard folder, started by a transient systemd timer, so it needs neither Python nor a network.
After a power cut or a reboot nobody can have confirmed: a unit that is there as long as a guard is armed then runs all undos, before what
they are about is started.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .command import run
from .files import replace, temporaries
from .machine import FileState, HostError
from .notes import STATE

#: Runs at boot what nobody has confirmed. In place without systemd's reading it: only a boot needs it.
_AT_BOOT = Path("/etc/systemd/system/pinion-undo.service")
_WANTED = Path("/etc/systemd/system/sysinit.target.wants/pinion-undo.service")
_AT_BOOT_TEXT = f"""\
# Kept by Pinion while a change waits for its confirmation.
[Unit]
Description=Take back what nobody confirmed before the power went
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target network-pre.target ssh.service nftables.service
RequiresMountsFor={STATE}

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for undo in {STATE}/guard/*/undo; do [ ! -x "$undo" ] || "$undo" boot; done'
"""
LOCK = Path("/run/pinion-converge.lock")
#: How often a waiting run looks whether it is its turn, in seconds.
_POLL = 0.2


class SystemdGuard:
    """Implements `machine.Guard`."""

    @contextmanager
    def lock(self, seconds: float, who: str) -> Iterator[float]:
        started = time.monotonic()
        descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try(descriptor):
                if time.monotonic() - started >= seconds:
                    raise HostError(f"another run is at work on this host since {_holder(descriptor)}; try again later")
                time.sleep(_POLL)
            os.ftruncate(descriptor, 0)
            note = f"{time.strftime('%Y-%m-%d %H:%M:%S %Z')} (process {os.getpid()}, {who})"
            os.pwrite(descriptor, note.encode("utf-8", "replace"), 0)
            _sweep()
            yield time.monotonic() - started
        finally:
            os.close(descriptor)

    def arm(self, name: str, before: Mapping[str, FileState | None], units: Sequence[str], seconds: int) -> None:
        folder = _folder(name)
        if not folder.exists():  # else: what is saved there is the last state that somebody confirmed
            staged = folder.with_name(f".{name}.new")
            staged.mkdir(mode=0o700, parents=True)
            for index, (path, state) in enumerate(before.items()):
                if state is not None:
                    _save(staged / str(index), Path(path))
            script = _script(folder, before, units)
            _mark(name).unlink(missing_ok=True)
            replace(staged / "undo", script.encode("utf-8", "surrogateescape"), 0o700)
            _keep_over_boot()
            staged.rename(folder)
        # The service too: an undo that waits for this run to end must not come before its new time.
        run(["systemctl", "stop", "--", f"{_unit(name)}.timer", f"{_unit(name)}.service"], check=False)
        run(
            [
                "systemd-run",
                "--quiet",
                f"--unit={_unit(name)}",
                f"--on-active={seconds}",
                "--timer-property=AccuracySec=1s",
                "--collect",
                str(folder / "undo"),
            ]
        )

    def armed(self, name: str) -> bool:
        return _folder(name).exists()

    def undone(self, name: str) -> bool:
        return _mark(name).exists()

    def disarm(self, name: str) -> bool:
        was = self.armed(name)
        run(["systemctl", "stop", "--", f"{_unit(name)}.timer"], check=False)
        shutil.rmtree(_folder(name), ignore_errors=True)
        if not any((STATE / "guard").glob("[!.]*")):
            _WANTED.unlink(missing_ok=True)
            _AT_BOOT.unlink(missing_ok=True)
        return was


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep() -> None:
    """Remove what a run that was killed while it armed left half made."""
    temporaries(_AT_BOOT)[0].unlink(missing_ok=True)
    for staged in (STATE / "guard").glob(".*.new"):
        shutil.rmtree(staged, ignore_errors=True)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 300, 0).decode("utf-8", "replace") or "a moment"


def _folder(name: str) -> Path:
    return STATE / "guard" / name


def _mark(name: str) -> Path:
    """There when the host has undone by itself."""
    return Path(f"/run/pinion-undone-{name}")


def _unit(name: str) -> str:
    return f"pinion-undo-{name}"


def _keep_over_boot() -> None:
    replace(_AT_BOOT, _AT_BOOT_TEXT.encode(), 0o644)
    _WANTED.parent.mkdir(parents=True, exist_ok=True)
    if not _WANTED.is_symlink():
        _WANTED.symlink_to(_AT_BOOT)


def _save(copy: Path, path: Path) -> None:
    """Copy with owner and mode, so that the script only has to move it."""
    status = path.stat()
    replace(copy, path.read_bytes(), status.st_mode & 0o7777, status.st_uid, status.st_gid)


def _script(folder: Path, before: Mapping[str, FileState | None], units: Sequence[str]) -> str:
    """The undo, under the lock of a converge run; it does nothing when the folder is gone (confirmed meanwhile)."""
    lines = ["#!/bin/sh", f"exec 9>>{LOCK}", "flock 9", f"[ -d {folder} ] || exit 0"]
    for index, (path, state) in enumerate(before.items()):
        if state is None:
            lines.append(f"rm -f {shlex.quote(path)}")
        else:
            temporary = shlex.quote(str(temporaries(Path(path))[1]))
            lines.append(f"cp -a {folder}/{index} {temporary} && mv -f {temporary} {shlex.quote(path)}")
    # At boot nothing has been started yet that reads them.
    lines += [f'[ "$1" = boot ] || systemctl try-reload-or-restart {shlex.quote(unit)}' for unit in units]
    lines += [f": >{_mark(folder.name)}", f"rm -rf {folder}"]
    lines.append(f"ls {folder.parent}/*/undo >/dev/null 2>&1 || rm -f {_WANTED} {_AT_BOOT}")
    return "\n".join(lines) + "\n"
