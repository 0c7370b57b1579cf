#!/usr/bin/python3 -I
"""Heat, throttling and undervoltage of a Raspberry Pi, as metrics and as a state that routers read: power-thermal [--once] [--config FILE].

Looks again and again, and each time writes both files anew, each by rename. It stays, since to start an interpreter in a sandbox for
every look costs a node thirty times as much as the look.

* Metrics: a textfile for Prometheus' node exporter.
* State: JSON with `state` (``ok``, ``warm``, ``throttled``, ``unknown``), `since`, `at`, `expires` (seconds since 1970) and `reasons`.
  A reader takes a state that has expired, or a file that is not there, as ``unknown``.

``throttled`` is what the firmware says it does now: it caps the clock, or the supply is too low. ``warm`` comes before that, by
temperature or the firmware's soft limit, and ends only some degrees below where it began. ``unknown``: nothing could be read.
Exit with --once: 0 written, 1 written and nothing could be read. Always: 2 not written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIG = Path("/etc/pinion/power-thermal.json")
#: Raspberry Pi documentation, vcgencmd get_throttled: bit now, and 16 further on: since the start.
FLAGS = {0: "under_voltage", 1: "frequency_capped", 2: "throttled", 3: "soft_temperature_limit"}
_SINCE_START = 16
#: Flags that mean that the processor is slower than it could be.
SLOWER = ("under_voltage", "frequency_capped", "throttled")
STATES = ("ok", "warm", "throttled", "unknown")


@dataclass(frozen=True)
class Settings:
    """From which temperature on a node is warm, how far below it stops to be (degrees Celsius); how often to look, how long a state is good
    (seconds)."""

    warm_at: float
    hysteresis: float
    interval: float
    good_for: float
    metrics: Path
    state: Path


@dataclass(frozen=True)
class Reading:
    """What the board says; None for what it does not. *flags* is the firmware's word."""

    temperature: float | None
    flags: int | None
    supply_volts: float | None
    fan_rpm: float | None

    def now(self) -> tuple[str, ...]:
        """The flags that hold now."""
        return tuple(name for bit, name in FLAGS.items() if (self.flags or 0) >> bit & 1)


def decide(reading: Reading, before: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The state and its reasons, from what the board says and what the state was. Pure."""
    if reading.temperature is None and reading.flags is None:
        return "unknown", ("neither temperature nor flags can be read",)
    flags = reading.now()
    slower = tuple(name for name in SLOWER if name in flags)
    if slower:
        return "throttled", slower
    limit = settings.warm_at - (settings.hysteresis if before in {"warm", "throttled"} else 0)
    reasons = [name for name in flags if name not in SLOWER]
    if reading.temperature is not None and reading.temperature >= limit:
        reasons.append("temperature")
    return ("warm" if reasons else "ok"), tuple(reasons)


def read(sys_folder: Path) -> Reading:
    """What the board says: firmware by vcgencmd, else by sysfs; temperature and fan by sysfs."""
    said = vcgencmd("get_throttled")
    if said is None:
        files = [*sys_folder.glob("devices/platform/*firmware/get_throttled")]
        files += sys_folder.glob("devices/platform/*/*firmware/get_throttled")
        said = text(files[0]) if files else None
    match = re.search(r"(?:0x)?([0-9a-fA-F]+)\s*$", said or "")
    flags = int(match[1], 16) if match is not None else None
    if flags is None:
        alarm = hwmon(sys_folder, "rpi_volt", "in0_lcrit_alarm")
        flags = int(alarm) if alarm is not None else None
    volts = re.search(r"=([0-9.]+)V", vcgencmd("pmic_read_adc", "EXT5V_V") or "")
    return Reading(
        temperature=temperature(sys_folder),
        flags=flags,
        supply_volts=float(volts[1]) if volts is not None else None,
        fan_rpm=hwmon(sys_folder, "pwmfan", "fan1_input"),
    )


def temperature(sys_folder: Path) -> float | None:
    """Of the processor, in degrees Celsius."""
    zones = sorted(sys_folder.glob("class/thermal/thermal_zone*"))
    named = [zone for zone in zones if text(zone / "type") == "cpu-thermal"]
    for zone in named or zones[:1]:
        value = number(zone / "temp")
        if value is not None:
            return value / 1000
    return None


def hwmon(sys_folder: Path, name: str, entry: str) -> float | None:
    """*entry* of the hardware monitor called *name*."""
    for folder in sorted(sys_folder.glob("class/hwmon/hwmon*")):
        if text(folder / "name") == name:
            return number(folder / entry)
    return None


def vcgencmd(*words: str) -> str | None:
    """What the firmware answers, None where it does not."""
    try:
        done = subprocess.run(["vcgencmd", *words], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = done.stdout.strip()
    return answer if done.returncode == 0 and "error" not in answer else None


def text(path: Path) -> str | None:
    """What *path* says."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def number(path: Path) -> float | None:
    """The number in *path*."""
    try:
        return float(text(path) or "")
    except ValueError:
        return None


def metrics(reading: Reading, state: str, at: float) -> Iterator[str]:
    """Lines of the Prometheus text format."""
    prefix = "pinion_power_thermal"
    yield from _metric(f"{prefix}_state", "1 for the state that the node is in.")
    yield from (f'{prefix}_state{{state="{name}"}} {int(name == state)}' for name in STATES)
    if reading.flags is not None:
        yield from _metric(f"{prefix}_flag", "What the firmware says of power and heat, now and since the start.")
        for bit, name in FLAGS.items():
            for when, shift in (("now", 0), ("since_start", _SINCE_START)):
                yield f'{prefix}_flag{{flag="{name}",when="{when}"}} {reading.flags >> bit + shift & 1}'
    values = {
        "temperature_celsius": (reading.temperature, "Temperature of the processor."),
        "supply_volts": (reading.supply_volts, "Voltage of the 5 V supply."),
        "fan_rpm": (reading.fan_rpm, "Speed of the fan."),
        "last_run_timestamp_seconds": (at, "When this was read."),
    }
    for name, (value, meaning) in values.items():
        if value is not None:
            yield from _metric(f"{prefix}_{name}", meaning)
            yield f"{prefix}_{name} {value:.14g}"


def _metric(name: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} gauge"


def previous(path: Path) -> tuple[str, float]:
    """State and its beginning as they were last written; unknown since 1970 where nothing was."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        state, since = str(data["state"]), float(data["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown", 0.0
    return (state, since) if state in STATES else ("unknown", 0.0)


def write(path: Path, content: str) -> None:
    """Replace *path* by rename: a reader sees the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, path)  # noqa: PTH105
    except OSError:
        os.unlink(name)  # noqa: PTH108
        raise


def look(settings: Settings, sys_folder: Path) -> int:
    """Look once and write what there is; the exit code of that."""
    at, reading = time.time(), read(sys_folder)
    before, since = previous(settings.state)
    state, reasons = decide(reading, before, settings)
    if state != before:
        print(f"{before} -> {state}{': ' if reasons else ''}{', '.join(reasons)}", flush=True)
        since = at
    said = {"state": state, "since": since, "at": at, "expires": at + settings.good_for, "reasons": list(reasons)}
    try:
        write(settings.metrics, "\n".join(metrics(reading, state, at)) + "\n")
        write(settings.state, json.dumps(said | {"temperature": reading.temperature}) + "\n")
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if state == "unknown" else 0


def ready() -> None:
    """Tell the service manager that there is a state now (sd_notify(3)); nothing where there is none."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.sendto(b"READY=1", f"\0{address[1:]}" if address.startswith("@") else address)


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="power-thermal", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--sys", type=Path, default=Path("/sys"))
    parser.add_argument("--once", action="store_true", help="look once and end")
    options = parser.parse_args(arguments)
    try:
        data = json.loads(options.config.read_text(encoding="utf-8"))
        settings = Settings(
            warm_at=float(data["warm_at"]),
            hysteresis=float(data["hysteresis"]),
            interval=float(data["interval"]),
            good_for=float(data["good_for"]),
            metrics=Path(data["metrics"]),
            state=Path(data["state"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.config}: {error!r}", file=sys.stderr)
        return 2
    while (code := look(settings, options.sys)) != 2 and not options.once:
        ready()
        time.sleep(settings.interval)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
