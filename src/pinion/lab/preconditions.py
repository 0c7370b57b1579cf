"""What the lab needs of the machine that it runs on."""

from __future__ import annotations

import os
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.processes import missing_programs
from pinion.lab.progress import Progress

#: Kernel limits that hold for all of a user's processes, so for all machines of all labs at once, and what they must be at least. A
#: systemd, a containerd and a kubelet take about ten inotify instances together; Linux allows 128 by default (inotify(7), "Too many open
#: files").
LIMITS = {"fs/inotify/max_user_instances": 2048, "fs/inotify/max_user_watches": 524288}


def raise_limits(progress: Progress, proc: Path = Path("/proc/sys")) -> list[str]:
    """Raise the kernel limits that machines would run into, never lower one; returns which. They hold until the next reboot."""
    raised = []
    for name, least in LIMITS.items():
        path = proc / name
        if (before := int(path.read_text())) < least:
            path.write_text(str(least))
            raised.append(name.replace("/", "."))
            progress.say("kernel", f"{raised[-1]} raised from {before} to {least}, for all machines together")
    return raised


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
