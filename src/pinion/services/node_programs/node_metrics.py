#!/usr/bin/python3 -I
"""Pinion's own metrics of a host, for the node exporter's textfile collector. Runs on the host: Python's standard library alone.

Usage: ``node-metrics FOLDER``; writes ``FOLDER/pinion.prom`` by rename, so that the exporter never reads half a file. What cannot be
read is left out and counted in ``pinion_collector_errors``: a metric that is missing is seen, one that lies is not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: Where the on-host program keeps its notes, and what waits for a confirmation.
STATE = Path("/var/lib/pinion")
#: Debian's packages leave this when a running kernel or library is older than the installed one.
REBOOT_REQUIRED = Path("/run/reboot-required")
#: Pinion's own runs note here what counts from the next boot on.
NEEDS_BOOT = Path("/run/pinion-needs-boot.json")

Sample = tuple[dict[str, str], float]


def concerns() -> Iterator[Sample]:
    """When each concern was last changed on this host."""
    for path in sorted((STATE / "concerns").glob("*.json")):
        json.loads(path.read_text())  # a torn note is an error, not a time
        yield {"concern": path.stem}, path.stat().st_mtime


def unconfirmed() -> Iterator[Sample]:
    """Changes that the host will undo by itself unless somebody confirms them."""
    folder = STATE / "guard"
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    yield {}, float(len(names))


def reboot_required() -> Iterator[Sample]:
    """Whether something waits for a reboot."""
    noted = json.loads(NEEDS_BOOT.read_text()) if NEEDS_BOOT.exists() else []
    yield {}, float(REBOOT_REQUIRED.exists() or bool(noted))


def clock() -> Iterator[Sample]:
    """Whether the kernel says that its clock is kept by somebody (adjtimex, as `timedatectl` shows it)."""
    done = subprocess.run(
        ["timedatectl", "show", "--property=NTPSynchronized", "--value"],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    yield {}, float(done.stdout.strip() == "yes")


def failed_units() -> Iterator[Sample]:
    """Units that systemd has given up on."""
    done = subprocess.run(
        ["systemctl", "list-units", "--state=failed", "--no-legend", "--plain"],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    yield {}, float(len(done.stdout.splitlines()))


#: Name, meaning and source of each metric; all are gauges.
METRICS: tuple[tuple[str, str, Callable[[], Iterator[Sample]]], ...] = (
    ("pinion_concern_changed_seconds", "When the concern was last changed on this host, Unix time.", concerns),
    ("pinion_unconfirmed_changes", "Changes that the host undoes by itself unless they are confirmed.", unconfirmed),
    ("pinion_reboot_required", "1 when something waits for a reboot.", reboot_required),
    ("pinion_clock_synchronised", "1 when the clock is kept by a time server.", clock),
    ("pinion_failed_units", "systemd units in state failed.", failed_units),
)


def text(now: Callable[[], float] = time.time) -> str:
    """All metrics in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    errors = 0
    for name, meaning, read in METRICS:
        try:
            samples = list(read())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            errors += 1
            continue
        lines += _metric(name, meaning, samples)
    lines += _metric("pinion_collector_errors", "Metrics that could not be read.", [({}, float(errors))])
    lines += _metric("pinion_collected_seconds", "When these metrics were written, Unix time.", [({}, now())])
    return "\n".join(lines) + "\n"


def _metric(name: str, meaning: str, samples: list[Sample]) -> list[str]:
    shown = [f"{name}{_labels(labels)} {value:.15g}" for labels, value in samples]
    return [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", *shown] if shown else []


def _labels(labels: dict[str, str]) -> str:
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for key, value in labels.items()
    )
    inner = ",".join(f'{key}="{value}"' for key, value in escaped)
    return f"{{{inner}}}" if inner else ""


def write(folder: Path, content: str) -> None:
    """Replace ``pinion.prom`` in *folder*; the exporter reads names that end in .prom only."""
    temporary = folder / ".pinion.prom.new"
    temporary.write_text(content)
    temporary.chmod(0o644)
    temporary.replace(folder / "pinion.prom")


if __name__ == "__main__":
    write(Path(sys.argv[1]), text())
