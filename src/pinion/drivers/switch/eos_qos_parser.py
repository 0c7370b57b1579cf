"""The traffic classes in Arista EOS configuration text, by a parser of its own, which shares nothing with the writer of such text.

Nothing is dropped silently: a line that has no typed field ends up in `other` of the profile, queue or watchdog that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pinion.drivers.switch.qos import QosDefaults, canonical
from pinion.plan.model import EcnMarking, MapTarget, PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchQos

#: EOS User Manual, "Quality of Service".
DEFAULTS = QosDefaults(traffic_classes=(1, 0, 2, 3, 4, 5, 6, 7), strict=True)
_MAP = re.compile(r"qos map (dscp|traffic-class) (\d+(?:[ ,-]\d+)*) to (traffic-class|tx-queue|cos) (\d+)")
_PROFILE = re.compile(r"qos profile (\S+)")
_QUEUE = re.compile(r"(?:uc-)?tx-queue (\d+)")
_NO_DROP = re.compile(r"priority-flow-control priority (\d) no-drop")
_SHARE = re.compile(r"bandwidth percent (\d+)")
_GUARANTEED = re.compile(r"bandwidth guaranteed percent (\d+)")
_ECN = re.compile(
    r"random-detect ecn minimum-threshold (\d+) kbytes maximum-threshold (\d+) kbytes max-mark-probability (\d+)(?: weight 0)?"
)
_TIMER = re.compile(
    r"priority-flow-control pause watchdog default (timeout|polling-interval|recovery-time) (\d+(?:\.\d+)?)"
)
_ACTION = re.compile(r"priority-flow-control pause watchdog action (drop|errdisable)")
_WATCHDOG = "priority-flow-control pause watchdog"
#: The maps that we know, by the words of their line.
_MAPS: dict[tuple[str, str], MapTarget] = {
    ("dscp", "traffic-class"): "traffic-class",
    ("traffic-class", "tx-queue"): "tx-queue",
    ("traffic-class", "cos"): "cos",
}
_FIELDS = {"timeout": "timeout_ms", "polling-interval": "polling_ms", "recovery-time": "recovery_ms"}


@dataclass(slots=True)
class QosReader:
    """Takes the top-level lines of a configuration one after the other; `read` has what they say together."""

    maps: list[QosMap] = field(default_factory=list)
    profiles: dict[str, QosProfile] = field(default_factory=dict)
    watchdog: PauseWatchdog = field(default_factory=PauseWatchdog)

    def take(self, header: str, lines: Sequence[str], depths: Sequence[int]) -> bool:
        """Whether *header*, with the *lines* below it at their *depths* (spaces), is about traffic classes; then it is kept."""
        if match := _MAP.fullmatch(header):
            return self._map(match)
        if match := _PROFILE.fullmatch(header):
            self.profiles[match[1]] = _profile(match[1], lines, depths)
            return True
        if header.startswith(f"{_WATCHDOG} "):
            self._timer(header)
            return True
        return False

    def read(self) -> SwitchQos:
        """What the lines said, in its canonical form."""
        return canonical(
            SwitchQos(maps=tuple(self.maps), profiles=tuple(self.profiles.values()), watchdog=self.watchdog),
            DEFAULTS,
        )

    def _map(self, match: re.Match[str]) -> bool:
        target, to, numbers = _MAPS.get((match[1], match[3])), int(match[4]), _numbers(match[2])
        largest = 63 if match[1] == "dscp" else 7
        if target is None or to > 7 or any(number > largest for number in numbers):
            return False
        self.maps += [QosMap(target=target, source=number, to=to) for number in numbers]
        return True

    def _timer(self, line: str) -> None:
        if match := _TIMER.fullmatch(line):
            change: dict[str, object] = {_FIELDS[match[1]]: round(float(match[2]) * 1000)}
        elif match := _ACTION.fullmatch(line):
            change = {"action": match[1]}
        else:
            change = {"other": (*self.watchdog.other, line)}
        self.watchdog = self.watchdog.model_copy(update=change)


def _numbers(text: str) -> list[int]:
    """``8 9 10``, ``8,9`` or ``8-10`` as numbers."""
    found: list[int] = []
    for part in re.split(r"[ ,]", text):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _profile(name: str, lines: Sequence[str], depths: Sequence[int]) -> QosProfile:
    own: list[str] = []
    queues: dict[int, list[str]] = {}
    current: list[str] = own
    shallow = min(depths, default=0)
    for line, depth in zip(lines, depths, strict=True):
        match = _QUEUE.fullmatch(line)
        if depth == shallow and match is not None:
            current = queues.setdefault(int(match[1]), [])
        elif depth == shallow:
            own.append(line)
            current = own
        else:
            current.append(line)
    made = QosProfile(name=name, queues=tuple(_queue(number, inside) for number, inside in queues.items()))
    for line in own:
        made = made.model_copy(update=_of_profile(made, line))
    return made


def _of_profile(profile: QosProfile, line: str) -> dict[str, object]:
    """What *line* changes of *profile*."""
    if match := _NO_DROP.fullmatch(line):
        return {"no_drop": (*profile.no_drop, int(match[1]))}
    match line:
        case "qos trust dscp":
            return {"trust": "dscp"}
        case "qos trust cos":
            return {"trust": "cos"}
        case "priority-flow-control on":
            return {"pfc": True}
        case "priority-flow-control pause watchdog":
            return {"watchdog": True}
    return {"other": (*profile.other, line)}


def _queue(number: int, lines: Sequence[str]) -> QosQueue:
    made = QosQueue(queue=number)
    round_robin = "no priority" in lines
    for line in lines:
        if line in {"no priority", "priority strict"}:
            continue
        if match := _SHARE.fullmatch(line):
            # a share of a queue that is always served first says nothing: it is no share
            change: dict[str, object] = {"share": int(match[1])} if round_robin else {"other": (*made.other, line)}
        elif match := _GUARANTEED.fullmatch(line):
            change = {"guaranteed": int(match[1])}
        elif match := _ECN.fullmatch(line):
            change = {
                "ecn": EcnMarking(minimum_kbytes=int(match[1]), maximum_kbytes=int(match[2]), probability=int(match[3]))
            }
        else:
            change = {"other": (*made.other, line)}
        made = made.model_copy(update=change)
    if round_robin and made.share is None:
        made = made.model_copy(update={"other": (*made.other, "no priority")})
    return made
