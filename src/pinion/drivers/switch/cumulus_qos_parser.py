"""The traffic classes in NVUE configuration of Cumulus Linux, by a parser of its own.

Where EOS has one profile, NVUE has one a kind (mapping, scheduler, ...): those of one name are one profile here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pinion.drivers.switch.nvue_tree import Node
from pinion.drivers.switch.qos import QosDefaults, canonical
from pinion.plan.model import EcnMarking, MapTarget, PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchQos

#: Cumulus Linux user guide, "Quality of Service": a DSCP's switch priority is the DSCP / 8, its queue has the same number, and so has its
#: 802.1p priority; a queue without a scheduler has no turn.
DEFAULTS = QosDefaults(traffic_classes=(0, 1, 2, 3, 4, 5, 6, 7), strict=False)
_KINDS = ("congestion-control", "egress-scheduler", "mapping", "pfc", "remark")
_TRUST: dict[str, Literal["dscp", "cos"]] = {"l3": "dscp", "l2": "cos"}
_GLOBAL = "default-global"


def read_qos(root: Node) -> SwitchQos:
    """What the configuration *root* says of traffic classes, in its canonical form."""
    names = sorted({name for kind in _KINDS for name in root.below("qos", kind)})
    marks: dict[tuple[str, int], QosMap] = {}
    profiles = []
    for name in names:
        profile, own = _profile(root, name)
        if name != _GLOBAL:
            # where two profiles disagree, that is no map of the switch: it shows at the profile that comes second
            odd = [entry for entry in own if marks.setdefault(entry.key, entry).to != entry.to]
            told = tuple(f"{entry.target} {entry.source} to {entry.to}" for entry in odd)
            profile = profile.model_copy(update={"other": (*profile.other, *told)})
        profiles.append(profile)
    queues = (
        QosMap(target="tx-queue", source=int(priority), to=int(node.text("traffic-class") or 0))
        for priority, node in _numbered(root, "qos", "egress-queue-mapping", _GLOBAL, "switch-priority")
    )
    percent = root.text("qos", "traffic-pool", "default-lossless", "memory-percent")
    qos = SwitchQos(
        maps=(*marks.values(), *queues),
        profiles=tuple(profiles),
        watchdog=_watchdog(root),
        lossless_percent=int(percent) if percent is not None and percent.isdecimal() else None,
    )
    return canonical(qos, DEFAULTS)


def port_profile(root: Node, port: Node) -> tuple[str | None, tuple[str, ...]]:
    """The QoS profile that *port* takes, and what it says beside."""
    taken = {kind: node.text("profile") or "" for kind, node in port.below("qos").items() if kind in _KINDS}
    watched = port.text("qos", "pfc-watchdog", "state") == "enable"
    name = next(iter(sorted({*taken.values()} - {""})), None)
    if name is None:
        return None, tuple(f"qos {kind}" for kind in port.below("qos"))
    there = {kind for kind in _KINDS if root.at("qos", kind, name) is not None}
    other = [f"qos {kind} profile {value}" for kind, value in taken.items() if value != name]
    other += [f"qos {kind} without profile {name}" for kind in sorted(there - taken.keys())]
    other += [f"qos {kind} profile {name}, which is not there" for kind in sorted(taken.keys() - there)]
    if watched != (root.at("qos", "pfc", name) is not None):
        other.append(f"qos pfc-watchdog {'on' if watched else 'off'}")
    other += [f"qos {kind}" for kind in port.below("qos") if kind not in {*_KINDS, "pfc-watchdog"}]
    return name, tuple(other)


def _numbered(root: Node, *path: str) -> Iterator[tuple[str, Node]]:
    yield from ((key, node) for key, node in root.below(*path).items() if key.isdecimal())


def _profile(root: Node, name: str) -> tuple[QosProfile, list[QosMap]]:
    """The profile *name* of all kinds, and the maps that it brings."""
    paused = root.at("qos", "pfc", name)
    trust = root.text("qos", "mapping", name, "trust")
    cable = paused.text("cable-length") if paused is not None else None
    queues = {int(number): _queue(int(number), root, name) for number in _queue_numbers(root, name)}
    profile = QosProfile(
        name=name,
        trust=_TRUST.get(trust or ""),
        pfc=paused is not None,
        no_drop=tuple(int(each) for each, _ in _numbered(root, "qos", "pfc", name, "switch-priority")),
        watchdog=any(port.text("qos", "pfc", "profile") == name and _watched(port) for port in _ports(root)),
        cable_metres=int(cable) if cable is not None and cable.isdecimal() else None,
        queues=tuple(queues[number] for number in sorted(queues)),
        other=tuple(_odd(root, name)),
    )
    return profile, [*_entries(root, name, "mapping", "dscp", "switch-priority", "traffic-class"),
                     *_entries(root, name, "remark", "switch-priority", "pcp", "cos")]  # fmt: skip


def _watched(port: Node) -> bool:
    return port.text("qos", "pfc-watchdog", "state") == "enable"


def _ports(root: Node) -> Iterator[Node]:
    yield from root.below("interface").values()


def _entries(root: Node, name: str, kind: str, of: str, to: str, target: MapTarget) -> Iterator[QosMap]:
    for number, node in _numbered(root, "qos", kind, name, of):
        value = node.text(to)
        if value is not None and value.isdecimal():
            yield QosMap(target=target, source=int(number), to=int(value))


def _queue_numbers(root: Node, name: str) -> set[str]:
    kinds = ("egress-scheduler", "congestion-control")
    return {number for kind in kinds for number, _ in _numbered(root, "qos", kind, name, "traffic-class")}


def _queue(number: int, root: Node, name: str) -> QosQueue:
    turn = root.at("qos", "egress-scheduler", name, "traffic-class", str(number))
    marks = root.at("qos", "congestion-control", name, "traffic-class", str(number))
    share, other = None, []
    if turn is None:
        other.append("has no turn")
    elif turn.text("mode") == "dwrr":
        share = int(turn.text("bw-percent") or 0)
    elif turn.text("mode") != "strict" or turn.at("bw-percent") is not None:
        other += [f"mode {turn.text('mode')}", f"bw-percent {turn.text('bw-percent')}"]
    ecn = None
    if marks is not None:
        low, high = (int(marks.text(f"{word}-threshold") or 0) for word in ("min", "max"))
        ecn = EcnMarking(
            minimum_kbytes=low // 1000, maximum_kbytes=high // 1000, probability=int(marks.text("probability") or 0)
        )
        if low % 1000 or high % 1000:
            other.append(f"thresholds {low} to {high} bytes")
        other += [f"{word} {marks.text(word)}" for word, meant in _MARKING if (marks.text(word) or meant) != meant]
    return QosQueue(queue=number, share=share, ecn=ecn, other=tuple(other))


#: What a queue that is marked says beside its thresholds (user guide: `ecn` is on and `red` off unless told).
_MARKING = (("ecn", "enable"), ("red", "disable"))
_OF_KIND = {
    "congestion-control": ("traffic-class",),
    "egress-scheduler": ("traffic-class",),
    "mapping": ("trust", "dscp"),
    "pfc": ("switch-priority", "cable-length", "rx", "tx"),
    "remark": ("switch-priority", "rewrite"),
}


def _odd(root: Node, name: str) -> Iterator[str]:
    """What the profiles *name* say that there is no word for, or that makes nothing of what they say."""
    for kind in _KINDS:
        held = root.at("qos", kind, name)
        for path, leaf in held.leaves() if held is not None else ():
            if path[0] not in _OF_KIND[kind]:
                yield " ".join((kind, *path, leaf.value or "")).strip()
    trust = root.text("qos", "mapping", name, "trust")
    if trust not in {None, *_TRUST}:
        yield f"mapping trust {trust}"
    yield from (f"pfc {way} off" for way in ("rx", "tx") if root.text("qos", "pfc", name, way) == "disable")
    if root.at("qos", "remark", name) is not None and root.text("qos", "remark", name, "rewrite") != "l2":
        yield f"remark rewrite {root.text('qos', 'remark', name, 'rewrite')}"


def _watchdog(root: Node) -> PauseWatchdog | None:
    """The timers of the watchdog: what robustness and polling come to. It drops, and heals after one poll without a pause."""
    held = root.at("qos", "pfc-watchdog")
    if held is None:
        return None
    polling, times = int(held.text("polling-interval") or 100), int(held.text("robustness") or 3)
    return PauseWatchdog(timeout_ms=polling * times, polling_ms=polling, recovery_ms=polling, action="drop")
