"""Long-running processes that outlive the command that started them: launched, recorded, found again, ended.

Invariants: a process writes its own record (pid, start time, boot) before it becomes the program, so no kill can leave one unrecorded;
a recorded pid is trusted only while start time and boot agree, so a reused pid is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.state import read_json, write_json

#: The programs the lab calls, and the Debian package of each.
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}

# $1 record, $2 log, $3 cgroup.procs files (newline separated), $4 a lock's descriptor or nothing, $5 the exit code with which the program
# asks to be started again or nothing, then the program. Field 22 of stat is the start time, which exec keeps. The lock is let go only when
# the record is there, so whoever gets it next finds the record.
_LAUNCH = r"""
set -eu
record=$1 log=$2 groups=$3 lock=$4 again=$5; shift 5
exec </dev/null >>"$log" 2>&1
printf '%s\n' "$groups" | while IFS= read -r group; do [ -z "$group" ] || echo $$ >"$group"; done
become() {
  own=$BASHPID
  start=$(cut -d')' -f2- /proc/$own/stat | cut -d' ' -f21)
  read -r boot </proc/sys/kernel/random/boot_id
  printf '{"pid": %d, "start": %d, "boot": "%s"}\n' "$own" "$start" "$boot" >"$record.new"
  mv -f "$record.new" "$record"
  [ -z "$lock" ] || exec {lock}>&-
  exec "$@"
}
[ -n "$again" ] || become "$@"
while :; do
  become "$@" &
  [ -z "$lock" ] || { exec {lock}>&-; lock=; }
  wait $! && code=0 || code=$?
  [ "$code" = "$again" ] || exit "$code"
done
"""


def missing_programs() -> dict[str, str]:
    """Programs that the lab needs and this machine lacks, with the Debian package of each."""
    return {program: package for program, package in PROGRAMS.items() if shutil.which(program) is None}


def boot_id() -> str:
    """The kernel's identifier of this boot (random(4))."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Start of process *pid* in clock ticks since boot (proc(5), stat field 22), or None when there is no living process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class Recorded:
    """A process as its record tells it. *start* is in clock ticks since boot."""

    pid: int
    start: int
    boot: str

    @classmethod
    def read(cls, record: Path) -> Recorded | None:
        """The process in *record*; None when the file is missing or not whole."""
        value = read_json(record)
        pid, start, boot = value.get("pid"), value.get("start"), value.get("boot")
        if isinstance(pid, int) and isinstance(start, int) and isinstance(boot, str):
            return cls(pid, start, boot)
        return None

    @classmethod
    def myself(cls) -> Recorded:
        """The calling process."""
        return cls(os.getpid(), start_time(os.getpid()) or 0, boot_id())

    def write(self, record: Path) -> None:
        """Replace *record* with this process."""
        write_json(record, {"pid": self.pid, "start": self.start, "boot": self.boot})

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self.boot == boot_id() and start_time(self.pid) == self.start

    def age(self) -> float:
        """Seconds since it started; 0.0 when it does not run."""
        if not self.alive():
            return 0.0
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - self.start / os.sysconf("SC_CLK_TCK"))

    def signal(self, number: int) -> None:
        """Send a signal to this very process, and to no other that took its number."""
        with self._handle() as handle:
            if handle is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds for its end; whether it has ended."""
        with self._handle() as handle:
            if handle is None:
                return True
            ready, _, _ = select.select([handle], [], [], timeout)
            return bool(ready)

    @contextlib.contextmanager
    def _handle(self) -> Iterator[int | None]:
        """A pidfd of this process, None when it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # asked after the open: from here on the number cannot change hands
            yield handle if self.alive() else None
        finally:
            os.close(handle)


def launch(
    argv: Sequence[str],
    *,
    record: Path,
    log: Path,
    cgroup_files: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    held: int | None = None,
    again: int | None = None,
    timeout: float = 30.0,
) -> Recorded:
    """Start *argv* in a session of its own, its output appended to *log*, itself in *record* and in the cgroups of *cgroup_files*.

    *again*: when it ends with this exit code it is started once more, under a record of its own. *held* is the descriptor of a lock that
    stays held until the record is written, even when the caller is killed meanwhile. Raises `LabError` when the process has not come to
    its exec after *timeout* seconds.
    """
    record.unlink(missing_ok=True)
    groups = "\n".join(map(str, cgroup_files))
    with log.open("ab"):
        log.chmod(0o600)
    lock = "" if held is None else str(held)
    repeat = "" if again is None else str(again)
    command = ["setsid", "--fork", "bash", "-c", _LAUNCH, "launch", str(record), str(log), groups, lock, repeat, *argv]
    passed = () if held is None else (held,)
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False, pass_fds=passed
    )
    if done.returncode:
        raise LabError(f"{argv[0]}: cannot be started: {done.stderr.strip()}")
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        process = Recorded.read(record)
        if process is not None:
            return process
        time.sleep(0.005)
    raise LabError(f"{argv[0]}: not started after {timeout:.0f} s; see {log}")


def end(process: Recorded, *, gently: int = signal.SIGTERM, patience: float = 10.0) -> bool:
    """End *process*: *gently*, then SIGKILL after *patience* seconds. Returns whether the gentle way was enough."""
    process.signal(gently)
    if process.wait(patience):
        return True
    process.signal(signal.SIGKILL)
    if not process.wait(10.0):
        raise LabError(f"process {process.pid}: survives SIGKILL; look at /proc/{process.pid}/stack")
    return False


def run(
    argv: Sequence[str],
    *,
    input: str | None = None,  # noqa: A002 - the name of subprocess
    timeout: float = 60.0,
    check: bool = True,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short command and give its output; `LabError` names the command and what it said when it fails or takes too long."""
    try:
        done = subprocess.run(
            list(argv),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=env,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)}: no end after {timeout:.0f} s") from None
    except FileNotFoundError:
        raise LabError(f"{argv[0]}: not installed; apt-get install {PROGRAMS.get(argv[0], argv[0])}") from None
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {said}")
    return done
