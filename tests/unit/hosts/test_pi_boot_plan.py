"""What the plan says of the concern pi_boot, read back by a parser of its own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from unit.hosts.config_txt import LIMIT, command_line, read
from unit.hosts.nodes import concern, file, stated
from unit.hosts.sites import DC, LAB

from pinion.plan.concerns.pi_boot import (
    BOOT_DEVICES,
    CONFIG_FILE,
    EEPROM_FILE,
    boot_devices,
    boot_order,
    config_txt,
    fan_steps,
)
from pinion.plan.context import PI_COMMAND_LINE
from pinion.plan.model import DeviceKind
from pinion.services.node_programs.eeprom_settings import settings as eeprom
from pinion.site.catalog import load
from pinion.site.node_concerns import PiBoot

PI = DeviceKind.PI
KNOWN = load()
#: The section that a board reads beside [all].
FILTER = {"raspberry-pi-4b": "pi4", "raspberry-pi-5": "pi5", "raspberry-pi-cm5": "cm5"}


def model(board: str) -> str:
    return next(name for prefix, name in FILTER.items() if board.startswith(prefix))


def config(**settings: Any) -> str:
    return file(concern(stated(DC, {"pi_boot": settings}), PI, "pi_boot"), CONFIG_FILE).content


def test_a_pi_5_with_its_hat() -> None:
    found = read(config(), "pi5")
    assert found.parameters["pciex1"] == "on"
    assert found.parameters["pciex1_gen"] == "3"
    assert found.values["usb_max_current_enable"] == "1"
    assert found.values["arm_64bit"] == "1"
    fan = [(found.parameters[f"fan_temp{n}"], found.parameters[f"fan_temp{n}_speed"]) for n in range(4)]
    assert fan == [("50000", "75"), ("60000", "125"), ("67500", "175"), ("75000", "250")]
    assert found.overlays == []


@pytest.mark.parametrize(
    ("board", "hat"),
    [
        (board, hat)
        for board in KNOWN.boards
        for hat in [None, *KNOWN.hats]
        if hat is None or board in KNOWN.hats[hat].boards
    ],
)
def test_every_board_and_hat_gets_what_it_has_and_nothing_else(board: str, hat: str | None) -> None:
    entry, attached = KNOWN.boards[board], KNOWN.hats[hat] if hat is not None else None
    text = config_txt(PiBoot(), entry, attached, watchdog=False)
    found = read(text, model(board))
    assert ("pciex1_gen" in found.parameters) is (attached is not None)
    assert ("usb_max_current_enable" in found.values) is entry.usb_current
    assert sum(name.startswith("fan_temp") for name in found.parameters) == 3 * len(entry.fan_curve)
    assert all(len(line) <= LIMIT for line in text.splitlines() if not line.startswith("#"))
    assert "watchdog" not in found.parameters
    assert read(config_txt(PiBoot(), entry, attached, watchdog=True), model(board)).parameters["watchdog"] == "on"


def test_the_site_may_bend_the_fan_curve() -> None:
    points = [{"celsius": 45, "speed": "40%"}, {"celsius": 60, "speed": "100%", "hysteresis": 8}]
    found = read(config(fan_curve=points, usb_current=False), "pi5")
    steps = [tuple(found.parameters[f"fan_temp{n}{part}"] for part in ("", "_hyst", "_speed")) for n in range(4)]
    assert steps == [("45000", "5000", "102")] + [("60000", "8000", "255")] * 3, (
        "no step keeps the firmware's own value"
    )
    assert found.values["usb_max_current_enable"] == "0"
    assert fan_steps(PiBoot(), KNOWN.boards["raspberry-pi-4b-4gb"]) == ()


def test_the_memory_controller_is_on_the_command_line_and_the_rest_of_that_is_the_images() -> None:
    found = concern(stated(DC, {"pi_boot": {}}), PI, "pi_boot")
    (argument,) = found.kernel_arguments
    assert (argument.argument, argument.file, argument.live) == ("cgroup_enable=memory", PI_COMMAND_LINE, True)
    line = f"console=tty1 root=PARTUUID=x-02 rootwait {argument.argument}"
    assert command_line(line)["cgroup_enable"] == ["memory"]
    assert not any(entry.path == PI_COMMAND_LINE for entry in found.files)


@pytest.mark.parametrize(
    ("devices", "order"),
    [
        (("sd", "nvme", "usb"), 0xF461),
        (("nvme", "sd", "usb"), 0xF416),
        (("network",), 0xF2),
        (("usb", "network"), 0xF24),
    ],
)
def test_the_boot_order_as_the_documentation_writes_it(devices: tuple[Any, ...], order: int) -> None:
    assert boot_order(devices) == order


def test_every_boot_order_says_its_devices() -> None:
    names = {code: name for name, code in BOOT_DEVICES.items()}
    for count in range(1, 5):
        for devices in itertools.permutations(BOOT_DEVICES, count):
            digits = f"{boot_order(devices):x}"[::-1]  # type: ignore[arg-type]  # all of them are devices
            assert digits[-1] == "f"
            assert [names[int(digit, 16)] for digit in digits[:-1]] == list(devices)


def test_the_eeprom_starts_from_what_the_board_can() -> None:
    text = file(concern(stated(DC, {"pi_boot": {}}), PI, "pi_boot"), EEPROM_FILE).content
    assert eeprom(text) == {"BOOT_ORDER": "0xf461", "POWER_OFF_ON_HALT": "0"}
    assert boot_devices(PiBoot(), KNOWN.boards["raspberry-pi-4b-4gb"]) == ("sd", "usb")


def test_it_asks_for_a_reboot_on_hardware_and_for_nothing_in_a_container() -> None:
    real, lab = (concern(stated(site, {"pi_boot": {}}), PI, "pi_boot") for site in (DC, LAB))
    assert {entry.path for entry in real.files if entry.needs_reboot} == {CONFIG_FILE, EEPROM_FILE}
    assert not any(entry.needs_reboot or entry.run for entry in lab.files)
    assert lab.packages == ()
    assert {claim.name for claim in real.claims} - {claim.name for claim in lab.claims} == {"cgroup.memory", "eeprom"}
    assert {claim.evidence for claim in lab.claims} == {"parsed"}


def test_a_file_on_the_boot_partition_has_the_mode_that_fat_gives() -> None:
    assert file(concern(stated(DC, {"pi_boot": {}}), PI, "pi_boot"), CONFIG_FILE).mode == "0755"
