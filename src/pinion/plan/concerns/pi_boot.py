"""The concern `pi_boot`: what the firmware of a Raspberry Pi reads before there is a kernel.

It owns config.txt whole; other concerns that need a line in it have it stated here. The command line is shared, argument by argument.
Everything here counts from the next boot on, and the host says so; nothing here reboots it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinion.plan.context import PI_COMMAND_LINE, HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile
from pinion.plan.programs import as_planned, program_file, program_path
from pinion.plan.texts import kept_by
from pinion.site.catalog import Board, Evidence, Hat
from pinion.site.catalog import FanStep as CatalogFanStep
from pinion.site.node_concerns import BootDevice, PiBoot
from pinion.site.quantities import fraction

NAME = "pi_boot"
CONFIG_FILE = "/boot/firmware/config.txt"
#: The boot partition is FAT, where every file of root's has this mode (Raspberry Pi OS mounts it with the defaults of mount(8)).
FAT_MODE = "0755"
EEPROM_FILE = "/etc/pinion/eeprom.conf"
EEPROM_PROGRAM = "eeprom_settings"
#: The firmware ignores what stands beyond this column (Raspberry Pi documentation, config.txt, file format).
LINE_LIMIT = 98

_DOCUMENTATION = "Raspberry Pi documentation, config.txt"
_OVERLAYS = "raspberrypi/linux, arch/arm/boot/dts/overlays/README"
#: Raspberry Pi documentation, boot EEPROM, BOOT_ORDER: one hexadecimal digit a device, the first one last; 0xf starts again.
BOOT_DEVICES = {"sd": 0x1, "network": 0x2, "usb": 0x4, "nvme": 0x6}
_RESTART = 0xF
#: Of these, the ones that the board can start from.
_DEFAULT_ORDER: tuple[BootDevice, ...] = ("sd", "nvme", "usb")
#: Trip points of the fan.
_FAN_STEPS = 4
#: A fan's speed is a PWM value of 8 bits.
_FULL_SPEED = 255


def pi_boot(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis only."""
    settings = host.settings.pi_boot
    if settings is None or host.kind is not DeviceKind.PI:
        return None
    assert host.board is not None  # every Pi has one
    arguments, files = host.kernel_arguments(
        NAME,
        {
            "cgroup_enable=memory": "Linux Documentation/admin-guide/kernel-parameters.txt; the firmware's device tree disables the "
            "memory controller, which limits of services and pods need"
        },
    )
    evidence = Evidence.PARSED if host.lab else None
    config = HostFile(
        path=CONFIG_FILE,
        mode=FAT_MODE,
        content=config_txt(settings, host.board, host.hat, watchdog=host.settings.watchdog is not None),
        needs_reboot=not host.lab,
        evidence=Evidence.RENDERED if host.lab else None,
    )
    claims = [
        HostClaim(
            name=f"config.{key}",
            claim=f"config.txt has, of {key}",
            command=f"sed -n 's/^{key}=//p' {CONFIG_FILE} | tail -n 1",
            expected=value,
            evidence=evidence,
        )
        for key, value in _claimed(settings, host.board, host.hat)
    ]
    if not host.lab:
        claims.append(
            HostClaim(
                name="cgroup.memory",
                claim="the kernel's memory controller is",
                command="grep -qw memory /sys/fs/cgroup/cgroup.controllers && echo on || echo off",
                expected="on",
                after_boot=(PI_COMMAND_LINE,),
            )
        )
        eeprom = "the settings of the boot EEPROM are"
        claims.append(as_planned(EEPROM_PROGRAM, "eeprom", eeprom, EEPROM_FILE, after_boot=(EEPROM_FILE,)))
    return Concern(
        name=NAME,
        packages=() if host.lab else ("rpi-eeprom",),
        files=(config, program_file(EEPROM_PROGRAM), _eeprom_file(host, settings, host.board), *files),
        kernel_arguments=arguments,
        claims=tuple(claims),
    )


def config_txt(settings: PiBoot, board: Board, hat: Hat | None, *, watchdog: bool) -> str:
    """The whole config.txt of a headless node: *board* with *hat*, if any; *watchdog* when that concern is stated."""
    sections = [
        [
            (f"{_DOCUMENTATION}, boot options", ["arm_64bit=1", "auto_initramfs=1"]),
            ("no camera, no display, no sound: nobody looks at a rack", _HEADLESS),
        ]
    ]
    if hat is not None:
        sections.append(
            [
                (
                    f"{hat.model} ({hat.chip}): {_DOCUMENTATION}, PCIe",
                    ["dtparam=pciex1", f"dtparam=pciex1_gen={hat.pcie_generation}"],
                )
            ]
        )
    if board.usb_current:
        value = int(settings.usb_current)
        sections.append([(f"{_DOCUMENTATION}: 1.6 A for USB, else 0.6 A", [f"usb_max_current_enable={value}"])])
    if steps := fan_steps(settings, board):
        lines = []
        for number, step in enumerate(steps):
            lines += [
                f"dtparam=fan_temp{number}={step.temperature}",
                f"dtparam=fan_temp{number}_hyst={step.hysteresis}",
                f"dtparam=fan_temp{number}_speed={step.speed}",
            ]
        sections.append([("fan: " + (_OVERLAYS if not settings.fan_curve else "by the site file"), lines)])
    if watchdog:
        sections.append([(f"{_OVERLAYS}; for the concern watchdog", ["dtparam=watchdog=on"])])
    lines = ["# Kept by Pinion (concern pi_boot); changes made here are undone by the next run.", "[all]"]
    for section in sections:
        for source, entries in section:
            lines += [f"# {source}", *entries]
    return "\n".join(lines) + "\n"


_HEADLESS = ["camera_auto_detect=0", "display_auto_detect=0", "disable_splash=1", "dtparam=audio=off"]


def fan_steps(settings: PiBoot, board: Board) -> tuple[CatalogFanStep, ...]:
    """The fan's steps: the site's, else the board's own; none for a board whose firmware drives no fan."""
    if not board.fan_curve or not settings.fan_curve:
        return board.fan_curve
    steps = [
        CatalogFanStep(
            temperature=step.celsius * 1000,
            hysteresis=step.hysteresis * 1000,
            speed=round(fraction(step.speed) * _FULL_SPEED),
        )
        for step in settings.fan_curve
    ]
    # A step that is left out would keep the firmware's own values: the last one is repeated instead.
    return tuple(steps + [steps[-1]] * (_FAN_STEPS - len(steps)))


def boot_order(devices: Sequence[BootDevice]) -> int:
    """BOOT_ORDER for *devices*, first to last, and then from the start again: sd, nvme, usb is 0xf461."""
    order = _RESTART
    for device in reversed(devices):
        order = order << 4 | BOOT_DEVICES[device]
    return order


def _claimed(settings: PiBoot, board: Board, hat: Hat | None) -> list[tuple[str, str]]:
    """What matters most, by key and value as config.txt has them."""
    found = [("dtparam=pciex1_gen", str(hat.pcie_generation))] if hat is not None else []
    if board.usb_current:
        found.append(("usb_max_current_enable", str(int(settings.usb_current))))
    if steps := fan_steps(settings, board):
        found.append((f"dtparam=fan_temp{_FAN_STEPS - 1}", str(steps[-1].temperature)))
    return found


def boot_devices(settings: PiBoot, board: Board) -> tuple[BootDevice, ...]:
    """What *board* starts from, first to last."""
    return settings.boot_order or tuple(device for device in _DEFAULT_ORDER if device in board.boot_devices)


def _eeprom_file(host: HostContext, settings: PiBoot, board: Board) -> HostFile:
    devices = boot_devices(settings, board)
    lines = [
        kept_by(NAME),
        f"# Raspberry Pi documentation, boot EEPROM: {', '.join(devices)}, then from the start again",
        f"BOOT_ORDER={boot_order(devices):#x}",
        "# Raspberry Pi documentation, boot EEPROM: a node that was halted can be woken, and one that lost its power starts by itself",
        "POWER_OFF_ON_HALT=0",
        "",
    ]
    program = program_path(EEPROM_PROGRAM)
    return HostFile(
        path=EEPROM_FILE,
        content="\n".join(lines),
        run=() if host.lab else (f"! test -e {EEPROM_FILE} || {program} {EEPROM_FILE}",),
        needs_reboot=not host.lab,
        evidence=Evidence.RENDERED if host.lab else None,
    )
