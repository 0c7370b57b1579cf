#!/usr/bin/python3 -I
"""Merge settings into the boot EEPROM of a Raspberry Pi: eeprom-settings FILE [--check].

FILE has `KEY=value` lines. The EEPROM is written only where it differs, by `rpi-eeprom-config --apply`, and counts from the next boot on;
settings that FILE does not name stay as they are. Exit: 0 as wanted (now), 1 differs (with --check), 2 could not be read or written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TOOL = "rpi-eeprom-config"


def settings(text: str) -> dict[str, str]:
    """The `KEY=value` lines of *text*; comments, sections and empty lines are left out."""
    pairs = (line.partition("=") for line in map(str.strip, text.splitlines()) if line and line[0] not in "#[")
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def merged(current: str, wanted: Mapping[str, str]) -> str:
    """*current* with the values of *wanted*: in place where a key stands already, else in a last section for all models."""
    left = dict(wanted)
    lines = []
    for line in current.splitlines():
        key = line.partition("=")[0].strip()
        if key in wanted and "=" in line:
            if key in left:
                lines.append(f"{key}={left.pop(key)}")
            continue  # a second line of the same key would win over the first
        lines.append(line)
    if left:
        lines += ["[all]", *(f"{key}={value}" for key, value in left.items())]
    return "\n".join(lines) + "\n"


def run(argv: list[str]) -> str:
    """The output of *argv*. Raises `OSError` or `subprocess.CalledProcessError`."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="eeprom-settings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="KEY=value lines")
    parser.add_argument("--check", action="store_true", help="say what differs and write nothing")
    options = parser.parse_args(arguments)
    try:
        wanted = settings(options.file.read_text(encoding="utf-8"))
        current = run([TOOL])
        found = settings(current)
        different = [key for key, value in wanted.items() if found.get(key) != value]
        for key in different:
            print(f"{key}: {found.get(key, 'not set')} -> {wanted[key]}")
        if options.check or not different:
            return 1 if different else 0
        with tempfile.NamedTemporaryFile("w", prefix="eeprom-", suffix=".conf", delete=False) as file:
            file.write(merged(current, wanted))
        try:
            run([TOOL, "--apply", file.name])
        finally:
            os.unlink(file.name)  # noqa: PTH108
        print("written; it counts from the next boot on")
        return 0
    except subprocess.CalledProcessError as error:
        print(f"{TOOL}: exit {error.returncode}: {error.stderr.strip()}", file=sys.stderr)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
