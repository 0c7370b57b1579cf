#!/usr/bin/python3 -I
"""Bring all GPUs of a server to one division into MIG instances, or to none: gpu-modes [--check] [--config FILE].

Works by `nvidia-smi` and changes only what differs. Instances that somebody uses cannot be taken down: that is told, and tried again at the
next start, and so is a driver that does not answer, as one that waits for a boot. Exit: 0 as wanted (now), 1 something is not, 2 the
settings cannot be read.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

CONFIG = Path("/etc/pinion/gpu-modes.json")
_ROW = re.compile(r"^\|\s+(\d+)\s+MIG\s+(\S+)\s+\d+\s+\d+\s+\S+\s+\|$", re.MULTILINE)


class SmiError(Exception):
    """`nvidia-smi` could not do it; the text is its reason."""


def smi(*words: str) -> str:
    """What `nvidia-smi` says. Raises `SmiError`."""
    try:
        done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SmiError(str(error)) from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise SmiError(f"nvidia-smi {' '.join(words)}: {said[-1] if said else f'exit {done.returncode}'}")
    return done.stdout


def modes() -> dict[int, tuple[bool, bool]]:
    """MIG mode of each GPU by its index: whether it is on, and whether it will be after a reset. Raises `SmiError`."""
    text = smi("--query-gpu=index,mig.mode.current,mig.mode.pending", "--format=csv,noheader")
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    return {int(index): (current == "Enabled", pending == "Enabled") for index, current, pending in rows}


def instances() -> dict[int, list[str]]:
    """The profiles of the GPU instances of each GPU, in order of name. Raises `SmiError`."""
    try:
        text = smi("mig", "-lgi")
    except SmiError as error:
        if "No GPU instances found" in str(error) or "No MIG-enabled devices found" in str(error):
            return {}
        raise
    found: dict[int, list[str]] = {}
    for index, profile in _ROW.findall(text):
        found.setdefault(int(index), []).append(profile)
    return {index: sorted(profiles) for index, profiles in found.items()}


def different(wanted: list[str]) -> list[tuple[int, str]]:
    """What differs: the GPU and why. Raises `SmiError`."""
    found = []
    made = instances() if wanted else {}
    for index, (current, pending) in sorted(modes().items()):
        if current != bool(wanted):
            later = ", and waits for a reset of the GPU" if pending == bool(wanted) else ""
            found.append((index, f"MIG is {'on' if current else 'off'}{later}"))
        elif wanted and made.get(index, []) != wanted:
            found.append((index, f"instances are {', '.join(made.get(index, [])) or 'none'}, not {', '.join(wanted)}"))
    return found


def bring(index: int, wanted: list[str]) -> None:
    """Bring one GPU to *wanted*. Raises `SmiError`."""
    gpu = str(index)
    current, pending = modes()[index]
    if current and instances().get(index):
        smi("mig", "-i", gpu, "-dci")
        smi("mig", "-i", gpu, "-dgi")
    if current != bool(wanted) and pending != bool(wanted):
        smi("-i", gpu, "-mig", str(int(bool(wanted))))
        current = modes()[index][0]
    if wanted and current:
        smi("mig", "-i", gpu, "-cgi", ",".join(wanted), "-C")


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="gpu-modes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="say what differs and change nothing")
    parser.add_argument("--config", type=Path, default=CONFIG)
    options = parser.parse_args(arguments)
    try:
        wanted = sorted(str(profile) for profile in json.loads(options.config.read_text(encoding="utf-8"))["mig"])
        found = different(wanted)
    except SmiError as error:  # no driver, or one that waits for a boot
        print(error)
        return 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.check or not found:
        for index, why in found:
            print(f"GPU {index}: {why}")
        return 1 if found else 0
    for index, why in found:
        try:
            bring(index, wanted)
            print(f"GPU {index}: {why}; now {', '.join(wanted) or 'whole'}")
        except SmiError as error:
            print(f"GPU {index}: {error}")
    try:
        left = different(wanted)
    except SmiError as error:
        print(error)
        return 1
    for index, why in left:
        print(f"GPU {index}: {why}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
