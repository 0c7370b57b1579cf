"""The rack as a picture: geometry of each rack's elevation, its devices, their ports and VLAN colours. Pure data for the template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pinion.checks.model import Finding, Outcome
from pinion.plan.model import DevicePlan, InterfacePlan, Plan

#: Height of one rack unit, the width of a rack, the side of a port and the gap between ports, in SVG user units.
UNIT, RACK_WIDTH, PORT, GAP = 26, 460, 14, 2
#: Room for a device's name at the left of a mounted device.
NAME_WIDTH = 84
#: Devices without a rack unit are drawn below the rack, this many in a row.
TRAY_COLUMNS = 4

#: One colour a VLAN, by order of VLAN identifier: eight hues told apart by people with colour-blindness (Okabe and Ito, 2008).
VLAN_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")


@dataclass(frozen=True, slots=True)
class PortBox:
    """One port: where it is, its colour and what hovering or tapping it says."""

    x: float
    y: float
    size: int
    colour: str
    title: str


@dataclass(frozen=True, slots=True)
class DeviceBox:
    """One device: its rectangle, its worst outcome and its ports."""

    name: str
    x: float
    y: float
    width: float
    height: float
    outcome: Outcome | None
    ports: tuple[PortBox, ...]


@dataclass(frozen=True, slots=True)
class Elevation:
    """One rack drawn from the front. *units* are the numbers at its left edge with their y."""

    name: str
    width: float
    height: float
    rack_height: float
    units: tuple[tuple[int, float], ...]
    devices: tuple[DeviceBox, ...]


def colours(plan: Plan) -> dict[str, str]:
    """VLAN name to its colour."""
    return {vlan.name: VLAN_COLOURS[index % len(VLAN_COLOURS)] for index, vlan in enumerate(plan.vlans)}


def worst(findings: Iterable[Finding]) -> Outcome | None:
    """The worst outcome of some findings; None when there are none."""
    outcomes = {finding.outcome for finding in findings}
    return next((outcome for outcome in (Outcome.FAILED, Outcome.NOT_RUN, Outcome.PROVED) if outcome in outcomes), None)


def elevations(plan: Plan, findings: Iterable[Finding]) -> tuple[Elevation, ...]:
    """One elevation a rack. A device's outcome is the worst of the findings about it."""
    by_subject: dict[str, list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.check.subject, []).append(finding)
    units = {device_type.slug: device_type.units for device_type in plan.device_types}
    palette = colours(plan)
    return tuple(
        _elevation(rack.name, rack.units, [d for d in plan.devices if d.rack == rack.name], units, by_subject, palette)
        for rack in plan.racks
    )


def _elevation(
    name: str,
    rack_units: int,
    devices: list[DevicePlan],
    units: Mapping[str, int],
    findings: Mapping[str, list[Finding]],
    palette: Mapping[str, str],
) -> Elevation:
    mounted = [device for device in devices if device.position is not None]
    loose = [device for device in devices if device.position is None]
    boxes = []
    for device in mounted:
        height = max(units[device.device_type], 1)
        top = rack_units - (device.position or 1) - height + 1
        boxes.append(_box(device, 34, top * UNIT, RACK_WIDTH - 44, height * UNIT - 2, findings, palette))
    rack_height = rack_units * UNIT
    width = (RACK_WIDTH - 44 - (TRAY_COLUMNS - 1) * 8) / TRAY_COLUMNS
    for index, device in enumerate(loose):
        x = 34 + (index % TRAY_COLUMNS) * (width + 8)
        y = rack_height + 30 + (index // TRAY_COLUMNS) * 54
        boxes.append(_box(device, x, y, width, 46, findings, palette))
    rows = (len(loose) + TRAY_COLUMNS - 1) // TRAY_COLUMNS
    return Elevation(
        name=name,
        width=RACK_WIDTH,
        height=rack_height + (30 + rows * 54 if rows else 4),
        rack_height=rack_height,
        units=tuple((number, (rack_units - number) * UNIT) for number in range(1, rack_units + 1)),
        devices=tuple(boxes),
    )


def _box(
    device: DevicePlan,
    x: float,
    y: float,
    width: float,
    height: float,
    findings: Mapping[str, list[Finding]],
    palette: Mapping[str, str],
) -> DeviceBox:
    ports = [interface for interface in device.interfaces if interface.type != "virtual" or interface.management_only]
    wide = width > NAME_WIDTH * 2
    left, top = (x + NAME_WIDTH, y + 4) if wide else (x + 6, y + height / 2)
    size = _port_size(len(ports), x + width - left - 4, y + height - top - 2)
    columns = max(1, int((x + width - left - 4) // (size + GAP)))
    drawn = tuple(
        PortBox(
            x=round(left + (index % columns) * (size + GAP), 1),
            y=round(top + (index // columns) * (size + GAP), 1),
            size=size,
            colour=_colour(interface, palette),
            title=_title(device, interface),
        )
        for index, interface in enumerate(ports)
    )
    return DeviceBox(device.name, x, y, width, height, worst(findings.get(device.name, [])), drawn)


def _port_size(count: int, width: float, height: float) -> int:
    """The largest side, in SVG user units, with which *count* square ports fit into *width* by *height*."""
    for size in range(PORT, 2, -1):
        rows = max(1, int((height + GAP) // (size + GAP)))
        if rows * int((width + GAP) // (size + GAP)) >= count:
            return size
    return 2


def _colour(interface: InterfacePlan, palette: Mapping[str, str]) -> str:
    if not interface.enabled:
        return "none"
    if interface.untagged_vlan is not None:
        return palette[interface.untagged_vlan]
    return "url(#trunk)"


def _title(device: DevicePlan, interface: InterfacePlan) -> str:
    vlan = interface.untagged_vlan or ("trunk" if interface.tagged_vlans else "shut")
    cable = f" to {interface.cable.device} {interface.cable.interface}" if interface.cable else ""
    address = f" {', '.join(interface.addresses)}" if interface.addresses else ""
    return f"{device.name} {interface.name}: {vlan}{cable}{address}"
