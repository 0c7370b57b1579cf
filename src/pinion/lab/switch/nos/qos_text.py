"""Traffic classes as text, in the order and with the indentation of ``show running-config``, and in the tables of other `show` commands."""

from __future__ import annotations

from collections.abc import Iterator

from .config import Config, interface_order
from .grammar import CliError
from .qos import COS_MAP, DSCP_MAP, QUEUE_MAP, REWRITE_MAP, Profile, Qos, TxQueue

_WATCHDOG = "priority-flow-control pause watchdog"


def profile_blocks(qos: Qos) -> Iterator[list[str]]:
    """The profiles, each with the lines below it."""
    for profile in qos.profiles.values():
        yield [f"qos profile {profile.name}", *profile_lines(profile)]


def profile_lines(profile: Profile) -> Iterator[str]:
    """What stands below the header of *profile*."""
    if profile.trust is not None:
        yield f"   qos trust {profile.trust}"
    if profile.pfc:
        yield "   priority-flow-control on"
    yield from (f"   priority-flow-control priority {number} no-drop" for number in sorted(profile.no_drop))
    if profile.watchdog:
        yield f"   {_WATCHDOG}"
    for queue in profile.queues.values():
        yield "   !"
        yield f"   uc-tx-queue {queue.number}"
        yield from (f"      {line}" for line in _queue(queue))


def _queue(queue: TxQueue) -> Iterator[str]:
    if queue.round_robin:
        yield "no priority"
    if queue.share is not None:
        yield f"bandwidth percent {queue.share}"
    if queue.guaranteed is not None:
        yield f"bandwidth guaranteed percent {queue.guaranteed}"
    if queue.ecn is not None:
        ecn = queue.ecn
        yield (
            f"random-detect ecn minimum-threshold {ecn.minimum} {ecn.unit} maximum-threshold {ecn.maximum} {ecn.unit} "
            f"max-mark-probability {ecn.probability} weight {ecn.weight}"
        )


def global_blocks(qos: Qos) -> Iterator[list[str]]:
    """The maps, of those with one target one line, and the watchdog."""
    grouped: dict[tuple[str, str, int], list[int]] = {}
    for (source, target, value), to in qos.maps.items():
        grouped.setdefault((source, target, to), []).append(value)
    for (source, target, to), values in sorted(grouped.items()):
        yield [f"qos map {source} {' '.join(map(str, sorted(values)))} to {target} {to}"]
    for word in ("timeout", "recovery-time", "polling-interval"):
        if word in qos.timers:
            yield [f"{_WATCHDOG} default {word} {qos.timers[word] / 1000:g}"]
    if qos.action is not None:
        yield [f"{_WATCHDOG} action {qos.action}"]


# --- tables -------------------------------------------------------------------------------------------------------------


def maps(qos: Qos) -> str:
    """``show qos maps``."""
    lines = ["   Number of Traffic Classes supported: 8", "   Number of Transmit Queues supported: 8"]
    for title, kind in (("Cos-tc", COS_MAP), ("Dscp-tc", DSCP_MAP), ("Tc-cos", REWRITE_MAP), ("Tc-txq", QUEUE_MAP)):
        lines += ["", f"   {title} map:", *(_dscp_rows(qos) if kind == DSCP_MAP else _rows(qos, kind))]
    return "\n".join(lines)


def _rows(qos: Qos, kind: tuple[str, str]) -> list[str]:
    short = {"traffic-class": "tc", "tx-queue": "tx-queue", "cos": "cos"}
    above, below = short[kind[0]], short[kind[1]]
    width = max(len(above), len(below)) + 1
    return [
        f"     {above + ':':<{width}} {' '.join(map(str, range(8)))}",
        f"     {'-' * 28}",
        f"     {below + ':':<{width}} {' '.join(str(qos.mapped(kind, source)) for source in range(8))}",
    ]


def _dscp_rows(qos: Qos) -> list[str]:
    """Tens down, ones across, as EOS prints it."""
    rows = ["     d1 :  d2 0  1  2  3  4  5  6  7  8  9", f"    {'-' * 38}"]
    for tens in range(0, 64, 10):
        cells = (f"{qos.mapped(DSCP_MAP, dscp):>2}" for dscp in range(tens, min(tens + 10, 64)))
        rows.append(f"      {tens // 10} :    {' '.join(cells)}")
    return rows


def profiles(config: Config, name: str | None = None) -> str:
    """``show qos profile``: each, or the one called *name*; `CliError` when there is none."""
    known = config.qos.profiles
    if name is not None and name not in known:
        raise CliError(f"% QoS profile {name} not found")
    shown = [known[name]] if name is not None else list(known.values())
    return "\n".join(line for profile in shown for line in (f"qos profile {profile.name}", *profile_lines(profile)))


def flow_control(config: Config) -> str:
    """``show priority-flow-control``. Nothing is ever active: the data plane cannot pause, and the table says so."""
    rows = [["Port", "Enabled", "Priorities", "Active", "Note"]]
    for name in sorted(config.ethernets, key=interface_order):
        profile = config.qos.profiles.get(config.ethernets[name].service_profile or "", Profile(""))
        priorities = "".join(map(str, sorted(profile.no_drop)))
        note = "not supported by the data plane" if profile.pfc else ""
        rows.append([name, "Yes" if profile.pfc else "No", priorities, "No", note])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
