"""The concern `accelerator`: the packages of the chip on a Raspberry Pi's HAT, and none of another chip's."""

from __future__ import annotations

from pinion.plan.concerns.pi_boot import CONFIG_FILE
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, package_reason

NAME = "accelerator"
#: Builds the driver's module for the running kernel; Raspberry Pi's documentation has it installed first.
_BUILD = "dkms"
#: What `hailortcli fw-control identify` calls each chip.
ARCHITECTURES = {"hailo-8l": "HAILO8L", "hailo-8": "HAILO8", "hailo-10h": "HAILO10H"}
#: Transfers per second of a PCIe generation, as the kernel tells them (Linux drivers/pci/probe.c, pci_speed_string).
LINK_SPEEDS = {2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe"}
#: PCI vendor Hailo.
_VENDOR = "0x1e60"


def accelerator(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis with a HAT, on the platform whose archive has its packages."""
    if host.settings.accelerator is None or host.kind is not DeviceKind.PI or host.hat is None:
        return None
    if host.device.platform != host.hat.packages_from:
        return None
    device = f"$(dirname $(grep -lx {_VENDOR} /sys/bus/pci/devices/*/vendor | head -n 1))"
    # The firmware sets the link up as config.txt says, and Raspberry Pi's documentation has a reboot follow the packages: their driver.
    link = (CONFIG_FILE,) if host.settings.pi_boot is not None else ()
    driver = tuple(map(package_reason, host.hat.packages))
    return Concern(
        name=NAME,
        packages=(_BUILD, *host.hat.packages),
        packages_absent=host.hat.conflicts,
        packages_need_reboot=host.hat.packages,
        claims=(
            HostClaim(
                name="link",
                claim="the accelerator's PCIe link runs at",
                command=f"cat {device}/current_link_speed",
                expected=LINK_SPEEDS[host.hat.pcie_generation],
                after_boot=link,
            ),
            HostClaim(
                name="chip",
                claim="the accelerator answers as",
                command="hailortcli fw-control identify | sed -n 's/^Device Architecture: //p' | head -n 1",
                expected=ARCHITECTURES[host.hat.chip],
                after_boot=(*link, *driver),
            ),
        ),
    )
