"""The traffic classes of a switch in a canonical form, and what differs between what it holds and what it should. Pure.

Ours are the entries of maps that this plan or the former one names, the profiles whose names begin with `OURS`, and the watchdog's timers
where the plan states them. Everything else is foreign: told, never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pinion.plan.model import PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchPlan, SwitchQos
from pinion.render.switch_qos import map_line, profile_header, profile_lines, queue_lines, watchdog_lines

#: How the names of our profiles begin.
OURS = "pinion-"
#: EOS: the traffic class of a packet by its priority (802.1p, or DSCP / 8) unless told (EOS User Manual, "Quality of Service").
TRAFFIC_CLASSES = (1, 0, 2, 3, 4, 5, 6, 7)
_ORDER = ("traffic-class", "tx-queue", "cos")


def default_entry(entry: QosMap) -> QosMap:
    """What EOS maps the source of *entry* to unless told."""
    if entry.target == "traffic-class":
        to = TRAFFIC_CLASSES[entry.source >> 3]
    elif entry.target == "cos":
        to = TRAFFIC_CLASSES.index(entry.source)
    else:
        to = entry.source
    return QosMap(target=entry.target, source=entry.source, to=to)


def canonical(qos: SwitchQos | None) -> SwitchQos:
    """*qos* as a switch shows it: without entries and queues that are as they would be anyway, in order, and without origins."""
    if qos is None:
        return SwitchQos()
    return SwitchQos(
        maps=ordered_maps(entry for entry in qos.maps if entry.to != default_entry(entry).to),
        profiles=tuple(sorted(map(_canonical_profile, qos.profiles), key=lambda profile: profile.name)),
        watchdog=None if qos.watchdog == PauseWatchdog() else qos.watchdog,
    )


def ordered_maps(entries: Iterable[QosMap]) -> tuple[QosMap, ...]:
    """*entries* without origins, in the order that a packet meets them; of two for one source the later counts, as on a switch."""
    latest = {entry.key: entry.model_copy(update={"origin": ""}) for entry in entries}
    return tuple(sorted(latest.values(), key=lambda entry: (_ORDER.index(entry.target), entry.source)))


def _canonical_profile(profile: QosProfile) -> QosProfile:
    queues = (queue for queue in profile.queues if queue != QosQueue(queue=queue.queue))
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


def expected_qos(state: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None) -> SwitchQos:
    """What the switch will hold: the plan's, and of *state* what is foreign."""
    target, ours = canonical(want.qos), owned_maps(want, previous)
    return SwitchQos(
        maps=ordered_maps((*target.maps, *(entry for entry in state.maps if entry.key not in ours))),
        profiles=tuple(
            sorted(
                (*target.profiles, *(profile for profile in state.profiles if not profile.name.startswith(OURS))),
                key=lambda profile: profile.name,
            )
        ),
        watchdog=target.watchdog if _owns_watchdog(want, previous) else state.watchdog,
    )


def _owns_watchdog(want: SwitchPlan, previous: SwitchPlan | None) -> bool:
    return any(
        known.qos is not None and known.qos.watchdog is not None for known in (want, previous) if known is not None
    )


def foreign_qos(state: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None) -> Iterator[str]:
    """What is on the switch and not ours, as configuration lines."""
    ours = owned_maps(want, previous)
    yield from (map_line(entry) for entry in state.maps if entry.key not in ours)
    yield from (profile_header(profile.name) for profile in state.profiles if not profile.name.startswith(OURS))
    if state.watchdog is not None and not _owns_watchdog(want, previous):
        yield from watchdog_lines(state.watchdog)


# --- differences ----------------------------------------------------------------------------------------------------------

#: Path below ``qos``, subject, field, what is held and what is wanted; None is absent.
Difference = tuple[tuple[str, ...], str, str, str | None, str | None]


def qos_differences(
    has: SwitchQos, needs: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None
) -> Iterator[Difference]:
    """How *has* differs from *needs*, both canonical, in words; *want* and *previous* say what the site file calls it."""
    yield from _map_differences(has, needs, owned_maps(want, previous))
    names = sorted({profile.name for profile in (*has.profiles, *needs.profiles)})
    for name in names:
        yield from _profile_differences(name, has.profile(name), needs.profile(name))
    held, wanted = _watchdog_shown(has.watchdog), _watchdog_shown(needs.watchdog)
    if held != wanted:
        yield ("watchdog",), "PFC watchdog", "timers", held, wanted


def _map_differences(has: SwitchQos, needs: SwitchQos, ours: dict[tuple[str, int], QosMap]) -> Iterator[Difference]:
    held, wanted = ({entry.key: entry for entry in qos.maps} for qos in (has, needs))
    for entry in ordered_maps((*has.maps, *needs.maps)):
        default = default_entry(entry)
        old, new = held.get(entry.key, default).to, wanted.get(entry.key, default).to
        if old != new:
            kind = "DSCP" if entry.target == "traffic-class" else "traffic class"
            origin = ours[entry.key].origin if entry.key in ours else ""
            subject = f"{kind} {entry.source}" + (f" ({origin})" if origin else "")
            field = {"traffic-class": "traffic class", "tx-queue": "queue", "cos": "802.1p priority"}[entry.target]
            yield ("maps", entry.target, str(entry.source)), subject, field, str(old), str(new)


def _profile_differences(name: str, has: QosProfile | None, needs: QosProfile | None) -> Iterator[Difference]:
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
        ("other", "other lines", _joined(has.other), _joined(needs.other)),
    )
    for key, field, old, new in fields:
        if old != new:
            yield (*path, key), subject, field, old, new
    held, wanted = ({queue.queue: queue for queue in profile.queues} for profile in (has, needs))
    for number in sorted({*held, *wanted}):
        queues = [known.get(number, QosQueue(queue=number)) for known in (held, wanted)]
        if queues[0] != queues[1]:
            yield (*path, str(number)), subject, f"queue {number}", _queue_shown(queues[0]), _queue_shown(queues[1])


def _profile_shown(profile: QosProfile) -> str:
    queues = (f"queue {queue.queue} {_queue_shown(queue)}" for queue in profile.queues)
    return "; ".join((*profile_lines(profile), *queues))


def _queue_shown(queue: QosQueue) -> str:
    return ", ".join(queue_lines(queue)) or "priority strict"


def _watchdog_shown(watchdog: PauseWatchdog | None) -> str | None:
    """Its lines without the words that all of them begin with."""
    if watchdog is None:
        return None
    words = "priority-flow-control pause watchdog "
    return ", ".join(line.removeprefix(words).removeprefix("default ") for line in watchdog_lines(watchdog))


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _joined(lines: tuple[str, ...]) -> str | None:
    return "; ".join(lines) or None


# --- commands -------------------------------------------------------------------------------------------------------------


def profiles_to_remove(state: SwitchQos) -> Iterator[str]:
    """Our profiles away, whatever they hold; the plan's are put in anew."""
    yield from (f"no {profile_header(profile.name)}" for profile in state.profiles if profile.name.startswith(OURS))


def map_defaults(state: SwitchQos, want: SwitchPlan, previous: SwitchPlan | None) -> Iterator[str]:
    """The commands that put entries of ours which the plan no longer has back to the switch's own."""
    planned = {entry.key for entry in want.qos.maps} if want.qos is not None else set()
    ours = owned_maps(want, previous)
    yield from (
        map_line(default_entry(entry)) for entry in state.maps if entry.key in ours and entry.key not in planned
    )
