"""What a router knows of its Pi: requests that it has given to the engine, and what the kernel tells of processor and temperature."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

#: Of the processor, in thousandths of a degree Celsius (Linux, Documentation/driver-api/thermal/sysfs-api.rst).
TEMPERATURE = Path("/sys/class/thermal/thermal_zone0/temp")
#: What the firmware limits, in hexadecimal; bit 2: throttled now (Raspberry Pi documentation, `vcgencmd get_throttled`).
THROTTLED = Path("/sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled")
_THROTTLED_NOW = 1 << 2


@dataclass(slots=True)
class Slots:
    """The engine's decode slots, by the requests that the router gave it. *ends* are the times at which each is predicted to end."""

    slots: int
    ends: list[float] = field(default_factory=list)

    @contextmanager
    def taken(self, seconds: float) -> Iterator[None]:
        """A slot, or a place in the queue for one, as long as a request is answered; predicted to take *seconds* from when it has it."""
        end = time.monotonic() + self.wait() + seconds
        self.ends.append(end)
        try:
            yield
        finally:
            self.ends.remove(end)

    @property
    def free(self) -> int:
        """How many requests it can begin to answer at once."""
        return max(self.slots - len(self.ends), 0)

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return max(len(self.ends) - self.slots, 0)

    def wait(self) -> float:
        """Seconds until one more request would have a slot, as predicted."""
        if self.free:
            return 0.0
        # it has the slot of the one that ends before the last so many
        return max(sorted(self.ends)[-self.slots] - time.monotonic(), 0.0)


class Kernel:
    """Processor and temperature of this host, read from below *root*. What this host has no file for is 0."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before: tuple[float, float] | None = None
        self.cpu = self.temperature = 0.0
        self.throttled = False
        self.at = time.monotonic()

    def look(self, *, engine_idle: bool) -> None:
        """Read all of it. The processor counts while the engine is idle, and the last such figure holds while it answers."""
        busy, whole = self._jiffies()
        if self._before is not None and engine_idle and whole > self._before[1]:
            self.cpu = (busy - self._before[0]) / (whole - self._before[1])
        self._before = busy, whole
        self.temperature = self._number(TEMPERATURE) / 1000
        self.throttled = bool(int(self._number(THROTTLED, 16)) & _THROTTLED_NOW)
        self.at = time.monotonic()

    def _jiffies(self) -> tuple[float, float]:
        """Time that the processors were busy, and all of it (proc(5), /proc/stat: idle and waiting for a disk are not busy)."""
        times = [float(word) for word in self._path(Path("/proc/stat")).read_text().split("\n", 1)[0].split()[1:9]]
        return sum(times) - times[3] - times[4], sum(times)

    def _number(self, file: Path, base: int = 10) -> float:
        with suppress(OSError, ValueError):
            return float(int(self._path(file).read_text(), base))
        return 0.0

    def _path(self, file: Path) -> Path:
        return self._root / file.relative_to("/")
