#!/usr/bin/env python3
"""Compile the requirement files into lock files: every package pinned, with hashes, without any index's address.

Runs in the project's environment (uv comes from there). Pins that stand in a lock file stay until --upgrade asks for newer ones.

Example: .venv/bin/python tools/lock.py --upgrade
"""

from __future__ import annotations

import argparse
import os
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
    options: tuple[str, ...] = ("--universal", "--no-annotate", "--no-header")


RUNTIME = tuple(f"requirements/{role}.in" for role in ROLES)
#: What runs beside Pinion and not within it: no user of Pinion needs it installed.
BESIDE = ("requirements/model.in", "requirements/onnx_server.in", "requirements/edge_router.in")
LOCKS = (
    Lock("requirements/bootstrap.txt", ("requirements/bootstrap.in",)),
    Lock("requirements/dev.txt", (*RUNTIME, *BESIDE, "requirements/dev.in")),
    # After dev.txt, whose pins bind it: what runs is what was tested.
    Lock("requirements/runtime.txt", RUNTIME),
    # The official NetBox, installed inside a machine of the lab (Debian 13). Its bytes name a cached database template: an unchanged
    # set of pins must give an unchanged file.
    Lock(
        "src/pinion/lab/netbox/requirements.txt",
        ("src/pinion/lab/netbox/requirements.in",),
        python="3.13",
        options=("--python-platform", "x86_64-unknown-linux-gnu"),
    ),
    # Triton, likewise in a machine of the lab. What its wheel says that it needs is for a part of it that does not run there.
    Lock(
        "src/pinion/lab/triton/requirements.txt",
        ("src/pinion/lab/triton/requirements.in",),
        python="3.11",
        options=("--universal", "--no-deps"),
    ),
)


def compile_lock(lock: Lock, *, upgrade: bool) -> None:
    """Compile one lock file.

    Raises:
        subprocess.CalledProcessError: uv found no solution, or no index.
        SystemExit: the result names an address.
    """
    uv, output = REPOSITORY / ".venv" / "bin" / "uv", REPOSITORY / lock.output
    environment = uv_environment(REPOSITORY / ".venv")
    environment.pop("UV_FIND_LINKS", None)
    options = ["--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--quiet", *lock.options]
    if lock.inputs == RUNTIME:
        options += ["--constraint", str(REPOSITORY / "requirements" / "dev.txt")]
    if upgrade:
        options.append("--upgrade")
    # In the lock's own folder, so that what uv writes into its comments is the same in every checkout.
    inputs = [os.path.relpath(REPOSITORY / name, output.parent) for name in lock.inputs]
    command = [
        str(uv),
        "pip",
        "compile",
        "--python-version",
        lock.python,
        *options,
        "--output-file",
        output.name,
        *inputs,
    ]
    environment["UV_CUSTOM_COMPILE_COMMAND"] = (
        f"uv pip compile --python-version {lock.python} {' '.join(lock.options)} --generate-hashes --no-emit-index-url"
        f" -o {output.name} {' '.join(inputs)}"
    )
    print(f"lock: {lock.output}", flush=True)
    subprocess.run(command, cwd=output.parent, env=environment, check=True, stdin=subprocess.DEVNULL)
    if "://" in output.read_text():
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
