#!/usr/bin/env python3
"""Compile the requirement files into lock files: every package pinned, with hashes, without any index's address.

Runs in the project's environment (uv comes from there). Pins that stand in a lock file stay until --upgrade asks for newer ones.

Example: .venv/bin/python tools/lock.py --upgrade
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from python_env import REPOSITORY, uv_environment

ROLES = ("site", "infra", "netbox", "switch", "cluster", "hosts")


@dataclass(frozen=True)
class Lock:
    """One lock file, what it is compiled from, and the oldest Python that will install it."""

    output: str
    inputs: tuple[str, ...]
    python: str = "3.11"


RUNTIME = tuple(f"requirements/{role}.in" for role in ROLES)
LOCKS = (
    Lock("requirements/bootstrap.txt", ("requirements/bootstrap.in",)),
    Lock("requirements/dev.txt", (*RUNTIME, "requirements/dev.in")),
    # After dev.txt, whose pins bind it: what runs is what was tested.
    Lock("requirements/runtime.txt", RUNTIME),
    # The official NetBox, installed inside a machine of the lab (Debian 13).
    Lock("src/pinion/lab/netbox/requirements.txt", ("src/pinion/lab/netbox/requirements.in",), python="3.13"),
)


def compile_lock(lock: Lock, *, upgrade: bool) -> None:
    """Compile one lock file.

    Raises:
        subprocess.CalledProcessError: uv found no solution, or no index.
        SystemExit: the result names an address.
    """
    uv = REPOSITORY / ".venv" / "bin" / "uv"
    options = [
        "--generate-hashes",
        "--universal",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--no-annotate",
        "--no-header",
        "--quiet",
    ]
    if lock.inputs == RUNTIME:
        options += ["--constraint", "requirements/dev.txt"]
    if upgrade:
        options.append("--upgrade")
    environment = uv_environment(REPOSITORY / ".venv")
    environment.pop("UV_FIND_LINKS", None)
    command = [
        str(uv),
        "pip",
        "compile",
        *options,
        "--python-version",
        lock.python,
        "--output-file",
        lock.output,
        *lock.inputs,
    ]
    print(f"lock: {lock.output}", flush=True)
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdin=subprocess.DEVNULL)
    if "://" in (REPOSITORY / lock.output).read_text():
        sys.exit(f"lock: {lock.output} names an address")


def main() -> int:
    """Compile all lock files; 2 when one cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    arguments = parser.parse_args()
    try:
        for lock in LOCKS:
            compile_lock(lock, upgrade=arguments.upgrade)
    except subprocess.CalledProcessError as error:
        print(f"lock: uv ended with status {error.returncode}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
