"""Programs of the host: run one, with a fixed environment and the reason when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from .machine import HostError

#: A fixed environment: messages in English, nothing asks questions, services restart as the package says.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    "NEEDRESTART_MODE": "a",
}
#: Lines of a failed program's output that are passed on.
LAST_LINES = 5


def run(argv: Sequence[str], *, check: bool = True, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run *argv*. Raises `HostError` when it fails and *check* says so, or when it takes longer than *seconds*."""
    try:
        done = subprocess.run(
            argv,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise HostError(f"{argv[0]}: there is no such program on this host") from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{' '.join(argv)}: not done after {seconds:.0f} s") from error
    if check and done.returncode != 0:
        raise HostError(f"{' '.join(argv)}: exit {done.returncode}: {reason(done)}")
    return done


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last lines that a failed program said, in one."""
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return " | ".join(lines[-LAST_LINES:]) or "it said nothing"
