"""Live kernel parameters and modules, by /proc/sys and /sys/module."""

from __future__ import annotations

import os
from pathlib import Path

from .command import run
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

    def loaded(self, module: str) -> bool:
        name = module.replace("-", "_")
        if Path("/sys/module", name).is_dir():
            return True
        # Built in without parameters: only this list knows of it.
        built_in = Path("/lib/modules", os.uname().release, "modules.builtin")
        lines = built_in.read_text().splitlines() if built_in.is_file() else ()
        return any(Path(line).name.partition(".")[0].replace("-", "_") == name for line in lines)

    def load(self, module: str) -> None:
        run(["modprobe", "--", module])


def _path(key: str) -> Path:
    """sysctl(8): dots separate, and a slash stands for a dot inside a name (``net.ipv4.conf.eth0/100.rp_filter``)."""
    parts = [part.replace("/", ".") for part in key.split(".")]
    if not all(parts) or ".." in parts:
        raise HostError(f"sysctl {key}: not a name of a kernel parameter")
    return _ROOT.joinpath(*parts)
