"""Quantities as a person writes them in a site file: the unit is part of the value (``80ms``, ``60%``, ``9000``).

Each function turns one written value into a number in one fixed unit, or raises `ValueError` with a sentence that
says what was expected. They are used as pydantic validators, so the loader can attach file, line and column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DURATION = re.compile(r"^(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|h)$")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_PERCENT = re.compile(r"^(?P<number>\d+(?:\.\d+)?)\s*%$")
_NUMBERS_PART = re.compile(r"^(?P<first>\d+)(?:-(?P<last>\d+))?$")
_PORTS_PART = re.compile(r"^(?P<stem>[A-Za-z]+)?(?P<first>\d+)(?P<suffix>/\d+)?(?:-(?:[A-Za-z]+)?(?P<last>\d+)(?P<last_suffix>/\d+)?)?$")

#: A group of nodes or ports larger than this is a typing mistake, not a rack.
MAXIMUM_EXPANSION = 100_000


def seconds(written: str) -> float:
    """A duration such as ``80ms``, ``5s``, ``2min`` or ``1h`` in seconds; `ValueError` when it is not one."""
    match = _DURATION.match(written)
    if match is None:
        raise ValueError(f"'{written}' is not a duration; write a number with its unit, such as 80ms, 5s or 2min")
    return float(match["number"]) * _SECONDS[match["unit"]]


def fraction(written: str) -> float:
    """A percentage such as ``60%`` as a number from 0 to 1; `ValueError` when it is not one or is above 100 %."""
    match = _PERCENT.match(written)
    if match is None:
        raise ValueError(f"'{written}' is not a percentage; write it with its sign, such as 60%")
    value = float(match["number"]) / 100.0
    if value > 1.0:
        raise ValueError(f"'{written}' is more than 100%")
    return value


def numbers(written: str | int) -> tuple[int, ...]:
    """Node numbers such as ``1-8`` or ``1-4,7`` in ascending order; `ValueError` on a repeat or a backward span."""
    found: list[int] = []
    for part in str(written).replace(" ", "").split(","):
        match = _NUMBERS_PART.match(part)
        if match is None:
            raise ValueError(f"'{part}' is not a number or a span of numbers; write for example 1-8 or 1-4,7")
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if last < first:
            raise ValueError(f"'{part}' runs backwards; write {last}-{first}")
        if first < 1:
            raise ValueError(f"'{part}' contains 0; node numbers start at 1")
        if last - first >= MAXIMUM_EXPANSION:
            raise ValueError(f"'{part}' is more than {MAXIMUM_EXPANSION} numbers")
        found.extend(range(first, last + 1))
    repeated = sorted({number for number in found if found.count(number) > 1}) if len(found) != len(set(found)) else []
    if repeated:
        raise ValueError(f"'{written}' names {', '.join(map(str, repeated))} more than once")
    return tuple(sorted(found))


def port_names(written: str) -> tuple[str, ...]:
    """Switch ports such as ``Ethernet1-8``, ``Ethernet1,3`` or ``Ethernet49/1-52/1`` as single names, in written order.

    Raises `ValueError` when the text is not a port list, runs backwards or mixes sub-ports in one span.
    """
    names: list[str] = []
    stem = ""
    for part in written.replace(" ", "").split(","):
        match = _PORTS_PART.match(part)
        if match is None or not (match["stem"] or stem):
            raise ValueError(f"'{part}' is not a port or a span of ports; write for example Ethernet1-8 or Ethernet49/1")
        stem = match["stem"] or stem
        suffix = match["suffix"] or ""
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if match["last"] and (match["last_suffix"] or suffix) != suffix:
            raise ValueError(f"'{part}' mixes sub-ports; write one span for each sub-port")
        if last < first:
            raise ValueError(f"'{part}' runs backwards; write {stem}{last}-{first}")
        if last - first >= MAXIMUM_EXPANSION:
            raise ValueError(f"'{part}' is more than {MAXIMUM_EXPANSION} ports")
        names.extend(f"{stem}{number}{suffix}" for number in range(first, last + 1))
    return tuple(names)


@dataclass(frozen=True, slots=True)
class SwitchPorts:
    """Some ports of one switch, in the order in which they are handed out.

    Attributes:
        switch: the switch's name in the site file.
        ports: interface names as the switch spells them.
    """

    switch: str
    ports: tuple[str, ...]


def switch_ports(written: str) -> SwitchPorts:
    """``tor-1 Ethernet1-8`` as a `SwitchPorts`; `ValueError` when it is not a switch name and a port list."""
    switch, separator, ports = written.strip().partition(" ")
    if not separator:
        raise ValueError(f"'{written}' does not name a switch and its ports; write for example: tor-1 Ethernet1-8")
    return SwitchPorts(switch=switch, ports=port_names(ports))
