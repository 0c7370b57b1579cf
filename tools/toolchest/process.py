"""Running other programs: stopped with us, low priority, their last words kept for the error."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

#: Niceness of downloads and builds: what waits for nothing should not slow down what a person looks at.
NICENESS = 5


class UnavailableError(Exception):
    """A source of a tool cannot be used here; the text says why. The next one is tried."""


def run(
    command: list[str],
    what: str,
    *,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
    seconds: float | None = None,
) -> str:
    """Run a command to its end and return what it printed (stdout and stderr together).

    The child gets SIGKILL when we die (setpriv, where there is one), so that a killed run leaves nothing at work.

    Raises:
        UnavailableError: no such program, status other than 0, or `seconds` are over; with the last lines of its output.
    """
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    try:
        result = subprocess.run(
            [*guard, *command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", check=False, timeout=seconds,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise UnavailableError(f"{what}: {error.filename} is not installed") from error
    except OSError as error:
        raise UnavailableError(f"{what}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{what}: no end after {seconds:.0f} s") from error
    if result.returncode != 0:
        tail = " | ".join(line for line in result.stdout.splitlines()[-6:] if line.strip())
        raise UnavailableError(f"{what}: status {result.returncode}: {tail[-800:]}")
    return result.stdout


def niced(command: list[str]) -> list[str]:
    """Return the command at low priority."""
    return ["nice", "-n", str(NICENESS), *command] if shutil.which("nice") else command


def machine_arch() -> str:
    """Return this machine's architecture in the words of Debian and Go (amd64, arm64)."""
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
