"""The traffic classes of a switch in a canonical form, and what differs between what it holds and what it should. Pure; knows no system.

Ours are the entries of maps that this plan or the former one names, the profiles whose names begin with `OURS`, and the watchdog's timers
where the plan states them. Everything else is foreign: told, never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pinion.plan.model import PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchPlan, SwitchQos

#: How the names of our profiles begin.
OURS = "pinion-"
_ORDER = ("traffic-class", "tx-queue", "cos")


@dataclass(frozen=True, slots=True)
class QosDefaults:
    """What a switch system does unless told. *traffic_classes* has the traffic class of the packets of each priority (DSCP / 8), 0 to 7.

    *strict*: a queue that is told nothing is served before those with a share; else it has no turn.
    """

    traffic_classes: tuple[int, ...]
    strict: bool


def default_entry(entry: QosMap, defaults: QosDefaults) -> QosMap:
    """What a switch with these *defaults* maps the source of *entry* to unless told."""
    if entry.target == "traffic-class":
        to = defaults.traffic_classes[entry.source >> 3]
    elif entry.target == "cos":
        to = defaults.traffic_classes.index(entry.source)
    else:
        to = entry.source
    return QosMap(target=entry.target, source=entry.source, to=to)


def canonical(qos: SwitchQos | None, defaults: QosDefaults) -> SwitchQos:
    """*qos* as a switch with these *defaults* shows it: in order, without origins and what would be so anyway."""
    if qos is None:
        return SwitchQos()
    return SwitchQos(
        maps=ordered_maps(entry for entry in qos.maps if entry.to != default_entry(entry, defaults).to),
        profiles=tuple(
            sorted(
                (_canonical_profile(profile, defaults) for profile in qos.profiles), key=lambda profile: profile.name
            )
        ),
        watchdog=None if qos.watchdog == PauseWatchdog() else qos.watchdog,
        lossless_percent=qos.lossless_percent,
    )


def ordered_maps(entries: Iterable[QosMap]) -> tuple[QosMap, ...]:
    """*entries* without origins, in the order that a packet meets them; of two for one source the later counts, as on a switch."""
    latest = {entry.key: entry.model_copy(update={"origin": ""}) for entry in entries}
    return tuple(sorted(latest.values(), key=lambda entry: (_ORDER.index(entry.target), entry.source)))


def _canonical_profile(profile: QosProfile, defaults: QosDefaults) -> QosProfile:
    queues = (queue for queue in profile.queues if not defaults.strict or queue != QosQueue(queue=queue.queue))
    return profile.model_copy(
        update={
            "no_drop": tuple(sorted(set(profile.no_drop))),
            "queues": tuple(sorted(queues, key=lambda queue: queue.queue)),
        }
    )


# --- whose is what ------------------------------------------------------------------------------------------------------


def owned_maps(want: SwitchPlan, previous: SwitchPlan | None) -> dict[tuple[str, int], QosMap]:
    """The entries of maps that are ours, of the former plan and of *want*, by what they map."""
    plans = [known for known in (previous, want) if known is not None and known.qos is not None]
    return {entry.key: entry for known in plans if known.qos is not None for entry in known.qos.maps}


def expected_qos(state: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None, defaults: QosDefaults) -> SwitchQos:
    """What the switch will hold: the plan's, and of *state* what is foreign."""
    target, ours = canonical(want.qos, defaults), owned_maps(want, previous)
    return SwitchQos(
        maps=ordered_maps((*target.maps, *(entry for entry in state.maps if entry.key not in ours))),
        profiles=tuple(
            sorted(
                (*target.profiles, *(profile for profile in state.profiles if not profile.name.startswith(OURS))),
                key=lambda profile: profile.name,
            )
        ),
        watchdog=target.watchdog if _owns(want, previous, "watchdog") else state.watchdog,
        lossless_percent=target.lossless_percent
        if _owns(want, previous, "lossless_percent")
        else state.lossless_percent,
    )


def _owns(want: SwitchPlan, previous: SwitchPlan | None, field: str) -> bool:
    """Whether the plan or the former one states *field* of `SwitchQos`."""
    return any(getattr(known.qos, field, None) is not None for known in (want, previous) if known is not None)


def foreign_qos(state: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None) -> Iterator[str]:
    """What is on the switch and not ours, in words."""
    ours = owned_maps(want, previous)
    yield from (
        f"{_source(entry)} to {_TARGETS[entry.target]} {entry.to}" for entry in state.maps if entry.key not in ours
    )
    yield from (f"QoS profile {profile.name}" for profile in state.profiles if not profile.name.startswith(OURS))
    if state.watchdog is not None and not _owns(want, previous, "watchdog"):
        yield f"PFC watchdog: {_watchdog_shown(state.watchdog)}"
    if state.lossless_percent is not None and not _owns(want, previous, "lossless_percent"):
        yield f"lossless packet memory: {state.lossless_percent} %"


# --- differences ----------------------------------------------------------------------------------------------------------

#: Path below ``qos``, subject, field, what is held and what is wanted; None is absent.
Difference = tuple[tuple[str, ...], str, str, str | None, str | None]


def qos_differences(
    has: SwitchQos, needs: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None, defaults: QosDefaults
) -> Iterator[Difference]:
    """How *has* differs from *needs*, both canonical, in words; *want* and *previous* say what the site file calls it."""
    yield from _map_differences(has, needs, owned_maps(want, previous), defaults)
    names = sorted({profile.name for profile in (*has.profiles, *needs.profiles)})
    for name in names:
        yield from _profile_differences(name, has.profile(name), needs.profile(name), defaults)
    held, wanted = _watchdog_shown(has.watchdog), _watchdog_shown(needs.watchdog)
    if held != wanted:
        yield ("watchdog",), "PFC watchdog", "timers", held, wanted
    held, wanted = _percent(has.lossless_percent), _percent(needs.lossless_percent)
    if held != wanted:
        yield ("lossless_percent",), "lossless packet memory", "share", held, wanted


def _map_differences(
    has: SwitchQos, needs: SwitchQos, ours: dict[tuple[str, int], QosMap], defaults: QosDefaults
) -> Iterator[Difference]:
    held, wanted = ({entry.key: entry for entry in qos.maps} for qos in (has, needs))
    for entry in ordered_maps((*has.maps, *needs.maps)):
        default = default_entry(entry, defaults)
        old, new = held.get(entry.key, default).to, wanted.get(entry.key, default).to
        if old != new:
            origin = ours[entry.key].origin if entry.key in ours else ""
            subject = _source(entry) + (f" ({origin})" if origin else "")
            yield ("maps", entry.target, str(entry.source)), subject, _TARGETS[entry.target], str(old), str(new)


_TARGETS = {"traffic-class": "traffic class", "tx-queue": "queue", "cos": "802.1p priority"}


def _source(entry: QosMap) -> str:
    """What *entry* maps."""
    return f"{'DSCP' if entry.target == 'traffic-class' else 'traffic class'} {entry.source}"


def _profile_differences(
    name: str, has: QosProfile | None, needs: QosProfile | None, defaults: QosDefaults
) -> Iterator[Difference]:
    path, subject = ("profiles", name), f"QoS profile {name}"
    if has is None or needs is None:
        shown = [None if profile is None else _profile_shown(profile) for profile in (has, needs)]
        if has is not needs:
            yield path, subject, "", shown[0], shown[1]
        return
    fields = (
        ("trust", "trust", has.trust or "(default)", needs.trust or "(default)"),
        ("pfc", "PFC", "on" if has.pfc else "off", "on" if needs.pfc else "off"),
        ("no_drop", "priorities paused", _numbers(has.no_drop), _numbers(needs.no_drop)),
        ("watchdog", "PFC watchdog", "on" if has.watchdog else "off", "on" if needs.watchdog else "off"),
        ("cable_metres", "cable, metres", str(has.cable_metres or "default"), str(needs.cable_metres or "default")),
        ("other", "other lines", _joined(has.other), _joined(needs.other)),
    )
    for key, field, old, new in fields:
        if old != new:
            yield (*path, key), subject, field, old, new
    held, wanted = ({queue.queue: queue for queue in profile.queues} for profile in (has, needs))
    for number in sorted({*held, *wanted}):
        untold = QosQueue(queue=number) if defaults.strict else None
        old, new = (_queue_shown(known.get(number, untold)) for known in (held, wanted))
        if old != new:
            yield (*path, str(number)), subject, f"queue {number}", old, new


def _profile_shown(profile: QosProfile) -> str:
    told = [f"trust {profile.trust}"] if profile.trust is not None else []
    told += ["PFC on"] if profile.pfc else []
    told += [f"priorities paused {_numbers(profile.no_drop)}"] if profile.no_drop else []
    told += ["PFC watchdog on"] if profile.watchdog else []
    told += [*profile.other, *(f"queue {queue.queue} {_queue_shown(queue)}" for queue in profile.queues)]
    return "; ".join(told)


def _queue_shown(queue: QosQueue | None) -> str:
    if queue is None:
        return "no turn"
    told = ["served first" if queue.share is None else f"share {queue.share} %"]
    told += [f"guaranteed {queue.guaranteed} %"] if queue.guaranteed is not None else []
    if queue.ecn is not None:
        ecn = queue.ecn
        told.append(f"ECN from {ecn.minimum_kbytes} to {ecn.maximum_kbytes} kB with {ecn.probability} %")
    return ", ".join([*told, *queue.other])


def _watchdog_shown(watchdog: PauseWatchdog | None) -> str | None:
    if watchdog is None:
        return None
    times = (
        ("timeout", watchdog.timeout_ms),
        ("polling", watchdog.polling_ms),
        ("recovery", watchdog.recovery_ms),
    )
    told = [f"{word} {milliseconds} ms" for word, milliseconds in times if milliseconds]
    told += [f"action {watchdog.action}"] if watchdog.action is not None else []
    return ", ".join([*told, *watchdog.other])


def _percent(percent: int | None) -> str | None:
    return None if percent is None else f"{percent} %"


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _joined(lines: tuple[str, ...]) -> str | None:
    return "; ".join(lines) or None
