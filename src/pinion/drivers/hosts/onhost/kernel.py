"""Live kernel parameters, by /proc/sys."""

from __future__ import annotations

from pathlib import Path

from .machine import HostError

_ROOT = Path("/proc/sys")


class ProcSys:
    """Implements `machine.Kernel`."""

    def read(self, key: str) -> str | None:
        try:
            return " ".join(_path(key).read_text().split())
        except OSError:
            return None

    def set(self, key: str, value: str) -> None:
        try:
            _path(key).write_text(value)
        except OSError as error:
            raise HostError(f"sysctl {key} = {value}: {error.strerror}") from error


def _path(key: str) -> Path:
    """sysctl(8): dots separate, and a slash stands for a dot inside a name (``net.ipv4.conf.eth0/100.rp_filter``)."""
    parts = [part.replace("/", ".") for part in key.split(".")]
    if not all(parts) or ".." in parts:
        raise HostError(f"sysctl {key}: not a name of a kernel parameter")
    return _ROOT.joinpath(*parts)
