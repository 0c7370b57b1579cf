"""Arista EOS text to what it says of traffic classes, VLANs and MTU, line by line.

It shares nothing with the writer of such text, nor with the driver's parser.
Of several lines that say one thing the last counts, as on a switch.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pinion.checks.fabric.said import Said, SaidEcn, SaidPort, SaidProfile, SaidQueue, SaidSwitch

_Handler = Callable[["_Reader", re.Match[str]], None]


class _Reader:
    """Goes through the text; knows which block it stands in."""

    def __init__(self, file: str) -> None:
        self.switch = SaidSwitch(file)
        self.line = 0
        self.profile: SaidProfile | None = None
        self.queue: SaidQueue | None = None
        self.port: SaidPort | None = None
        self.gateway: int | None = None

    def read(self, text: str) -> SaidSwitch:
        for self.line, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if not line or line.startswith("!"):
                continue
            if not raw.startswith(" "):
                self.profile = self.queue = self.port = self.gateway = None
            if not self._take(line) and self._ours(line):
                self.switch.odd.append(self.said(f"`{line}` is no line that a traffic class needs"))
        return self.switch

    def twice(self, before: int, what: str) -> None:
        """*what* stands at the line *before* and here: one of the two is meant for something else."""
        for line in (before, self.line):
            self.switch.odd.append(Said(f"`{what}` is written twice", self.switch.file, line))

    def said(self, value: str) -> Said[str]:
        return Said(value, self.switch.file, self.line)

    def number(self, value: str) -> Said[int]:
        return Said(int(value), self.switch.file, self.line)

    def _take(self, line: str) -> bool:
        for pattern, handler in _LINES:
            if match := pattern.fullmatch(line):
                handler(self, match)
                return True
        return False

    def _ours(self, line: str) -> bool:
        """Whether a line that is not understood could have to do with traffic classes."""
        words = ("qos ", "priority-flow-control", "service-p", "no priority-flow", "no qos")
        return self.profile is not None or line.startswith(words)


def _map(reader: _Reader, match: re.Match[str]) -> None:
    kind = {"traffic-class": "dscp"}.get(match["target"], match["target"])
    for number in match["sources"].split():
        before = reader.switch.maps.get((kind, int(number)))
        if before is not None:
            reader.twice(before.line, f"qos map {match['kind']} {number} to {match['target']}")
        reader.switch.maps[kind, int(number)] = reader.number(match["to"])


def _open_profile(reader: _Reader, match: re.Match[str]) -> None:
    reader.profile = reader.switch.profiles.setdefault(match["name"], SaidProfile(reader.said(match["name"])))


def _open_queue(reader: _Reader, match: re.Match[str]) -> None:
    if reader.profile is not None:
        number = int(match["number"])
        if number in reader.profile.queues:
            reader.twice(reader.profile.queues[number].number.line, f"uc-tx-queue {number}")
        reader.queue = reader.profile.queues.setdefault(number, SaidQueue(reader.number(match["number"])))


def _open_port(reader: _Reader, match: re.Match[str]) -> None:
    reader.port = reader.switch.ports.setdefault(match["name"], SaidPort(reader.said(match["name"])))


def _open_gateway(reader: _Reader, match: re.Match[str]) -> None:
    reader.gateway = int(match["vid"])


def _mtu(reader: _Reader, match: re.Match[str]) -> None:
    if reader.port is not None:
        reader.port.mtu = reader.number(match["octets"])
    elif reader.gateway is not None:
        reader.switch.gateways[reader.gateway] = reader.number(match["octets"])


def _ecn(reader: _Reader, match: re.Match[str]) -> None:
    if reader.queue is not None:
        ecn = SaidEcn(int(match["low"]), int(match["high"]), int(match["probability"]))
        reader.queue.ecn = Said(ecn, reader.switch.file, reader.line)


def _of_profile(name: str) -> _Handler:
    def handler(reader: _Reader, match: re.Match[str]) -> None:
        if reader.profile is not None:
            value = match["value"] if "value" in match.re.groupindex else True
            setattr(reader.profile, name, Said(value, reader.switch.file, reader.line))

    return handler


def _no_drop(reader: _Reader, match: re.Match[str]) -> None:
    if reader.profile is not None:
        reader.profile.no_drop.append(reader.number(match["value"]))


def _of_queue(name: str) -> _Handler:
    def handler(reader: _Reader, match: re.Match[str]) -> None:
        if reader.queue is not None:
            setattr(reader.queue, name, reader.number(match["value"]))

    return handler


def _round_robin(reader: _Reader, _: re.Match[str]) -> None:
    if reader.queue is not None:
        reader.queue.strict = False


def _strict(reader: _Reader, _: re.Match[str]) -> None:
    if reader.queue is not None:
        reader.queue.strict = True


def _of_port(name: str, *, number: bool) -> _Handler:
    def handler(reader: _Reader, match: re.Match[str]) -> None:
        if reader.port is not None:
            setattr(reader.port, name, (reader.number if number else reader.said)(match["value"]))

    return handler


def _shut(reader: _Reader, _: re.Match[str]) -> None:
    if reader.port is not None:
        reader.port.shut = True


def _trunk(reader: _Reader, match: re.Match[str]) -> None:
    vids: set[int] = set()
    for part in match["vids"].split(","):
        first, _, last = part.partition("-")
        vids.update(range(int(first), int(last or first) + 1))
    if reader.port is not None:
        reader.port.trunk_vlans = Said(frozenset(vids), reader.switch.file, reader.line)


def _timer(reader: _Reader, match: re.Match[str]) -> None:
    milliseconds = round(float(match["seconds"]) * 1000)
    reader.switch.timers[match["word"]] = Said(milliseconds, reader.switch.file, reader.line)


def _action(reader: _Reader, match: re.Match[str]) -> None:
    reader.switch.action = reader.said(match["value"])


_ECN_LINE = (
    r"random-detect ecn minimum-threshold (?P<low>\d+) kbytes maximum-threshold (?P<high>\d+) kbytes "
    r"max-mark-probability (?P<probability>\d+) weight 0"
)
_TIMER_LINE = (
    r"priority-flow-control pause watchdog default "
    r"(?P<word>timeout|polling-interval|recovery-time) (?P<seconds>\d+(?:\.\d+)?)"
)
_LINES: tuple[tuple[re.Pattern[str], _Handler], ...] = tuple(
    (re.compile(pattern), handler)
    for pattern, handler in (
        (r"qos map (?P<kind>dscp) (?P<sources>\d+(?: \d+)*) to (?P<target>traffic-class) (?P<to>\d+)", _map),
        (r"qos map (?P<kind>traffic-class) (?P<sources>\d+(?: \d+)*) to (?P<target>tx-queue|cos) (?P<to>\d+)", _map),
        (r"qos profile (?P<name>\S+)", _open_profile),
        (r"qos trust (?P<value>dscp|cos)", _of_profile("trust")),
        (r"priority-flow-control on", _of_profile("pfc")),
        (r"priority-flow-control pause watchdog", _of_profile("watchdog")),
        (r"priority-flow-control priority (?P<value>\d+) no-drop", _no_drop),
        (r"uc-tx-queue (?P<number>\d+)", _open_queue),
        (r"no priority", _round_robin),
        (r"priority strict", _strict),
        (r"bandwidth percent (?P<value>\d+)", _of_queue("share")),
        (r"bandwidth guaranteed percent (?P<value>\d+)", _of_queue("guaranteed")),
        (_ECN_LINE, _ecn),
        (r"interface (?P<name>Ethernet\S+)", _open_port),
        (r"interface Vlan(?P<vid>\d+)", _open_gateway),
        (r"shutdown", _shut),
        (r"(?:l2 )?mtu (?P<octets>\d+)", _mtu),
        (r"switchport access vlan (?P<value>\d+)", _of_port("access_vlan", number=True)),
        (r"switchport trunk allowed vlan (?P<vids>\d[\d,-]*)", _trunk),
        (r"service-profile (?P<value>\S+)", _of_port("profile", number=False)),
        (_TIMER_LINE, _timer),
        (r"priority-flow-control pause watchdog action (?P<value>\S+)", _action),
    )
)


def read_switch(file: str, text: str) -> SaidSwitch:
    """What the EOS configuration *text* says; *file* is how statements call it."""
    return _Reader(file).read(text)
