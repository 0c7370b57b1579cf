"""The concern `watchdog`: a host that hangs resets itself. systemd keeps the board's watchdog alive, and lets go when it hangs itself."""

from __future__ import annotations

from functools import lru_cache

from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile
from pinion.plan.texts import kept_by
from pinion.site.catalog import Evidence
from pinion.site.concerns import Watchdog
from pinion.site.quantities import seconds

NAME = "watchdog"
FILE = "/etc/systemd/system.conf.d/50-pinion-watchdog.conf"


def watchdog(host: HostContext) -> Concern | None:
    """The concern for *host*; None when the site does not state it."""
    settings = host.settings.watchdog
    if settings is None:
        return None
    # A Pi has it from the boot on in which its firmware read the line that pi_boot puts into config.txt for it.
    firmware = host.kind is DeviceKind.PI and host.settings.pi_boot is not None
    return _stated(settings, host.lab, (CONFIG_FILE,) if firmware else ())


@lru_cache(maxsize=64)
def _stated(settings: Watchdog, lab: bool, after_boot: tuple[str, ...]) -> Concern:
    """The same for every host of a site, but for whether it is a container, and what its device hangs on."""
    timeout, reboot = _time_span(settings.timeout), _time_span(settings.reboot_timeout)
    lines = [
        kept_by(NAME),
        "[Manager]",
        "# systemd-system.conf(5): the hardware resets the host this long after systemd was last heard of; it pings at half the time.",
        f"RuntimeWatchdogSec={timeout}",
        "# The last part of a shutdown, when only systemd itself is left, may take this long.",
        f"RebootWatchdogSec={reboot}",
        "# Off, its default: a kernel that is loaded over this one need not know the watchdog.",
        "KExecWatchdogSec=off",
    ]
    file = HostFile(path=FILE, content="\n".join(lines) + "\n", evidence=Evidence.RENDERED if lab else None)
    return Concern(name=NAME, files=(file,), claims=_claims(lab, timeout, reboot, after_boot))


def _time_span(written: str) -> str:
    """A duration as systemd itself prints it (systemd.time(7)): whole seconds, ``1min 30s``."""
    minutes, rest = divmod(round(seconds(written)), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number}{unit}" for number, unit in parts if number)


def _claims(lab: bool, timeout: str, reboot: str, after_boot: tuple[str, ...]) -> tuple[HostClaim, ...]:
    """What systemd says of itself; a container has no watchdog, and the text is all that can be looked at."""
    stated = (
        ("RuntimeWatchdogSec", "RuntimeWatchdogUSec", timeout),
        ("RebootWatchdogSec", "RebootWatchdogUSec", reboot),
    )
    if lab:
        merged = "systemd-analyze cat-config systemd/system.conf"
        return tuple(
            HostClaim(
                name=key,
                claim=f"systemd's {key} is to be",
                command=f"{merged} | sed -n 's/^{key}=//p' | tail -n 1",
                expected=value,
                evidence=Evidence.RENDERED,
            )
            for key, _, value in stated
        )
    found = [
        HostClaim(
            name=key,
            claim=f"systemd's {key} is",
            command=f"systemctl show --property={property_name} --value",
            expected=value,
        )
        for key, property_name, value in stated
    ]
    held = "ls -l /proc/1/fd | grep -q /dev/watchdog"
    device = HostClaim(
        name="device",
        claim="systemd holds the watchdog",
        command=f"{held} && echo yes || echo no",
        expected="yes",
        after_boot=after_boot,
    )
    return (*found, device)
