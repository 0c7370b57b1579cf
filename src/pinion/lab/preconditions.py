"""What the lab needs of the machine that it runs on."""

from __future__ import annotations

import os
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.processes import missing_programs


def check_machine() -> None:
    """`LabError` when this machine cannot hold a lab: not root, programs missing, no overlay file system."""
    if os.geteuid() != 0:
        raise LabError("the lab needs root (namespaces, mounts): run it with sudo")
    if missing := missing_programs():
        packages = " ".join(sorted(set(missing.values())))
        raise LabError(f"missing programs: {', '.join(missing)}; install them: apt-get install {packages}")
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        raise LabError("the kernel has no overlay file system; load it: modprobe overlay")
    if not Path("/dev/net/tun").exists():
        raise LabError("there is no /dev/net/tun for the switch; load it: modprobe tun")
