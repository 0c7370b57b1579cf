"""What a host is running, and a reboot of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from pinion.bringup.host_shell import HostRefusedError, Run, on
from pinion.drivers.hosts.inventory import Login
from pinion.drivers.hosts.onhost.notes import BOOT
from pinion.plan.model import HostPlan

#: Seconds for one question to a host.
_ASK_SECONDS = 30
#: Debian's own note of packages that count from the next boot on.
_PACKAGES = "/run/reboot-required.pkgs"
_REQUIRED = "/run/reboot-required"
#: One root shell. The kernel's boot id and the start of process 1 together tell one boot from the next, in a container too.
_LOOK = (
    "sudo -n sh -c '"
    'cat /proc/sys/kernel/random/boot_id; cut -d" " -f22 /proc/1/stat; '
    f'if test -e {BOOT}; then cat {BOOT}; else echo "[]"; fi; '
    f"if test -e {_REQUIRED}; then echo packages: $(sort -u {_PACKAGES} 2>/dev/null); fi'"
)
#: In a moment, so that this login ends in order and its exit code is that of systemd's answer.
_RESTART = "sudo -n systemd-run --quiet --on-active=1 --timer-property=AccuracySec=100ms systemctl reboot"


@dataclass(frozen=True, slots=True)
class Running:
    """What a host is running: *boot* names the boot, *reasons* is what waits for the next one."""

    boot: str
    reasons: tuple[str, ...]


def look(host: HostPlan, access: Login, run: Run = subprocess.run) -> Running:
    """What *host* is running. Raises `UnreachedError`, `HostRefusedError`."""
    said = on(host, access, _LOOK, "", _ASK_SECONDS, run).splitlines()
    try:
        kernel, first, noted, *packages = said
        return Running(f"{kernel}:{int(first)}", (*map(str, json.loads(noted)), *packages))
    except ValueError:
        raise HostRefusedError(f"{host.name} cannot say what it is running: {' '.join(said)[:200]!r}") from None


def restart(host: HostPlan, access: Login, run: Run = subprocess.run) -> None:
    """Reboot *host* in a moment. Raises `UnreachedError`, `HostRefusedError`."""
    on(host, access, _RESTART, "", _ASK_SECONDS, run)
