"""Traffic classes as Arista EOS configuration: the one writer, for what is sent to a switch and for the lines of a difference."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.plan.model import PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchQos

_SOURCES = {"traffic-class": "dscp", "tx-queue": "traffic-class", "cos": "traffic-class"}
_WATCHDOG = "priority-flow-control pause watchdog"


def map_line(entry: QosMap) -> str:
    """``qos map dscp 26 to traffic-class 3``."""
    return f"qos map {_SOURCES[entry.target]} {entry.source} to {entry.target} {entry.to}"


def profile_header(name: str) -> str:
    """The line that opens the profile *name*."""
    return f"qos profile {name}"


def queue_header(queue: QosQueue) -> str:
    """The line that opens *queue* within a profile. Switches with queues for unicast alone, as those of our catalogue, call them so."""
    return f"uc-tx-queue {queue.queue}"


def profile_lines(profile: QosProfile) -> Iterator[str]:
    """What stands below the header of *profile*, without its queues."""
    if profile.trust is not None:
        yield f"qos trust {profile.trust}"
    if profile.pfc:
        yield "priority-flow-control on"
    yield from (f"priority-flow-control priority {number} no-drop" for number in profile.no_drop)
    if profile.watchdog:
        yield _WATCHDOG
    yield from profile.other


def queue_lines(queue: QosQueue) -> Iterator[str]:
    """What stands below the header of *queue*."""
    if queue.share is not None:
        yield "no priority"
        yield f"bandwidth percent {queue.share}"
    if queue.guaranteed is not None:
        yield f"bandwidth guaranteed percent {queue.guaranteed}"
    if queue.ecn is not None:
        ecn = queue.ecn
        yield (
            f"random-detect ecn minimum-threshold {ecn.minimum_kbytes} kbytes maximum-threshold {ecn.maximum_kbytes} kbytes "
            f"max-mark-probability {ecn.probability} weight 0"
        )
    yield from queue.other


def watchdog_lines(watchdog: PauseWatchdog) -> Iterator[str]:
    """The timers of *watchdog* and what it does. Times are in seconds."""
    timers = (
        ("timeout", watchdog.timeout_ms),
        ("polling-interval", watchdog.polling_ms),
        ("recovery-time", watchdog.recovery_ms),
    )
    yield from (f"{_WATCHDOG} default {word} {seconds(milliseconds)}" for word, milliseconds in timers if milliseconds)
    if watchdog.action is not None:
        yield f"{_WATCHDOG} action {watchdog.action}"
    yield from watchdog.other


def watchdog_removal(watchdog: PauseWatchdog) -> Iterator[str]:
    """The commands that take away what `watchdog_lines` writes."""
    for line in watchdog_lines(watchdog):
        words = line.split()
        yield f"no {' '.join(words if line in watchdog.other else words[:-1])}"


def seconds(milliseconds: int) -> str:
    """``0.20``, ``0.005``."""
    return f"{milliseconds / 1000:.3f}" if milliseconds % 10 else f"{milliseconds / 1000:.2f}"


def profile_text(qos: SwitchQos) -> list[str]:
    """The profiles of *qos* as indented lines, each block closed by ``!``."""
    lines: list[str] = []
    for profile in qos.profiles:
        lines += [profile_header(profile.name), *(f"   {line}" for line in profile_lines(profile))]
        for queue in profile.queues:
            lines += ["   !", f"   {queue_header(queue)}", *(f"      {line}" for line in _told(queue))]
        lines.append("!")
    return lines


def _told(queue: QosQueue) -> Iterator[str]:
    """The lines of *queue*; of one that is always served first that it is, which EOS does not show."""
    if queue.share is None:
        yield "priority strict"
    yield from queue_lines(queue)


def global_lines(qos: SwitchQos) -> list[str]:
    """The maps of *qos* and its watchdog."""
    watchdog = () if qos.watchdog is None else tuple(watchdog_lines(qos.watchdog))
    return [*map(map_line, qos.maps), *watchdog]
