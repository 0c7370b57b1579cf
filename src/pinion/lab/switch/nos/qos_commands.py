"""The commands of traffic classes: maps, profiles with their queues, the PFC watchdog; and of the ports that take a profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from .editor import ETHERNET, GLOBAL, QOS_PROFILE, QOS_QUEUE, Editor
from .grammar import CliError
from .qos import COS_MAP, DSCP_MAP, QUEUE_MAP, REWRITE_MAP, Ecn, Profile, Qos, TxQueue

# --- maps ---------------------------------------------------------------------------------------------------------------


def _change(editor: Editor, qos: Qos) -> None:
    editor.config = replace(editor.config, qos=qos)


def _map(editor: Editor, sources: tuple[int, ...], to: int | None = None, *, kind: tuple[str, str]) -> None:
    if kind == QUEUE_MAP and to is not None and (7 in sources or to == 7):
        raise CliError("% Error: traffic class 7 and transmit queue 7 are kept for control traffic")
    _change(editor, editor.config.qos.with_map(kind, sources, to))


for _kind, _sources, _to in (
    (COS_MAP, "<cos-list>", "<traffic-class>"),
    (DSCP_MAP, "<dscp-list>", "<traffic-class>"),
    (REWRITE_MAP, "<cos-list>", "<cos>"),
    (QUEUE_MAP, "<cos-list>", "<queue>"),
):
    _words = f"qos map {_kind[0]} {_sources}"
    GLOBAL.add(f"{_words} to {_kind[1]} {_to}", partial(_map, kind=_kind), f"Map {_kind[0]} to {_kind[1]}")
    if _kind[0] != "traffic-class":
        for _verb in ("no", "default"):
            GLOBAL.add(f"{_verb} {_words}", partial(_map, kind=_kind))


# --- profiles -----------------------------------------------------------------------------------------------------------


@GLOBAL.command("qos profile <list>", about="Configure a QoS profile")
def _enter(editor: Editor, name: str) -> None:
    if name not in editor.config.qos.profiles:
        _change(editor, editor.config.qos.with_profile(Profile(name)))
    editor.mode, editor.targets, editor.vids = QOS_PROFILE, (name,), ()


@GLOBAL.command("no qos profile <list>", about="Remove a QoS profile")
def _remove(editor: Editor, name: str) -> None:
    _change(editor, editor.config.qos.without_profile(name))
    if editor.mode in {QOS_PROFILE, QOS_QUEUE} and name in editor.targets:
        while editor.leave():
            pass


def _profile(editor: Editor) -> Profile:
    return editor.config.qos.profiles[editor.targets[0]]


def _set(editor: Editor, **fields: object) -> None:
    _change(editor, editor.config.qos.with_profile(replace(_profile(editor), **fields)))  # type: ignore[arg-type]


def _setter(**fields: object) -> Callable[[Editor], None]:
    return lambda editor: _set(editor, **fields)


QOS_PROFILE.add("qos trust dscp", _setter(trust="dscp"), "Take the class from the packet's DSCP")
QOS_PROFILE.add("qos trust cos", _setter(trust="cos"), "Take the class from the frame's 802.1p priority")
QOS_PROFILE.add("priority-flow-control on", _setter(pfc=True), "Turn PFC on")
QOS_PROFILE.add("priority-flow-control pause watchdog", _setter(watchdog=True), "Notice pauses that do not end")
for _verb in ("no", "default"):
    QOS_PROFILE.add(f"{_verb} qos trust", _setter(trust=None))
    QOS_PROFILE.add(f"{_verb} priority-flow-control", _setter(pfc=False))
    QOS_PROFILE.add(f"{_verb} priority-flow-control pause watchdog", _setter(watchdog=False))


@QOS_PROFILE.command("priority-flow-control priority <cos> no-drop", about="Pause this priority")
def _no_drop(editor: Editor, priority: int) -> None:
    _set(editor, no_drop=_profile(editor).no_drop | {priority})


@QOS_PROFILE.command("priority-flow-control priority <cos> drop", "no priority-flow-control priority <cos>")
def _drop(editor: Editor, priority: int) -> None:
    _set(editor, no_drop=_profile(editor).no_drop - {priority})


@QOS_PROFILE.command("uc-tx-queue <queue>", about="Configure a transmit queue")
def _enter_queue(editor: Editor, number: int) -> None:
    if number not in _profile(editor).queues:
        _set_queue(editor, TxQueue(number))
    editor.mode, editor.vids = QOS_QUEUE, (number,)


@QOS_PROFILE.command("no uc-tx-queue <queue>", "default uc-tx-queue <queue>")
def _remove_queue(editor: Editor, number: int) -> None:
    _set(editor, queues={known: queue for known, queue in _profile(editor).queues.items() if known != number})
    if editor.mode is QOS_QUEUE and number in editor.vids:
        editor.leave()


# --- queues -------------------------------------------------------------------------------------------------------------


def _set_queue(editor: Editor, queue: TxQueue) -> None:
    queues = {**_profile(editor).queues, queue.number: queue}
    _set(editor, queues={number: queues[number] for number in sorted(queues)})


def _queue(editor: Editor, **fields: object) -> None:
    known = _profile(editor).queues[editor.vids[0]]
    _set_queue(editor, replace(known, **fields))  # type: ignore[arg-type]


def _queue_setter(**fields: object) -> Callable[[Editor], None]:
    return lambda editor: _queue(editor, **fields)


QOS_QUEUE.add("no priority", _queue_setter(round_robin=True), "Serve this queue in turn with others")
for _pattern in ("priority strict", "default priority"):
    QOS_QUEUE.add(_pattern, _queue_setter(round_robin=False), "Serve this queue before all lower ones")
QOS_QUEUE.add("bandwidth percent <percent>", lambda editor, share: _queue(editor, share=share), "Share of the port")
QOS_QUEUE.add("bandwidth guaranteed percent <percent>", lambda editor, share: _queue(editor, guaranteed=share))
for _verb in ("no", "default"):
    QOS_QUEUE.add(f"{_verb} bandwidth percent", _queue_setter(share=None))
    QOS_QUEUE.add(f"{_verb} bandwidth guaranteed percent", _queue_setter(guaranteed=None))
    QOS_QUEUE.add(f"{_verb} random-detect ecn", _queue_setter(ecn=None))


def _ecn(editor: Editor, low: int, high: int, probability: int, weight: int, *, unit: str) -> None:
    if low > high:
        raise CliError(f"% Error: the minimum threshold ({low}) is above the maximum threshold ({high})")
    _queue(editor, ecn=Ecn(low, high, unit, probability, weight))


for _unit in ("segments", "bytes", "kbytes", "mbytes"):
    _thresholds = f"minimum-threshold <threshold> {_unit} maximum-threshold <threshold> {_unit}"
    QOS_QUEUE.add(
        f"random-detect ecn {_thresholds} max-mark-probability <percent> weight <weight>",
        partial(_ecn, unit=_unit),
        "Mark packets before the queue is full",
    )


# --- the watchdog, and ports ----------------------------------------------------------------------------------------------

_WATCHDOG = "priority-flow-control pause watchdog"


def _timer(editor: Editor, milliseconds: int | None = None, *, word: str) -> None:
    kept = {known: value for known, value in editor.config.qos.timers.items() if known != word}
    _change(editor, replace(editor.config.qos, timers=kept if milliseconds is None else {**kept, word: milliseconds}))


def _action(editor: Editor, *, action: str | None) -> None:
    _change(editor, replace(editor.config.qos, action=action))


for _word, _seconds in (("timeout", "<stuck>"), ("polling-interval", "<polling>"), ("recovery-time", "<stuck>")):
    GLOBAL.add(f"{_WATCHDOG} default {_word} {_seconds}", partial(_timer, word=_word), "Timer of the PFC watchdog")
    GLOBAL.add(f"no {_WATCHDOG} default {_word}", partial(_timer, word=_word))
for _done in ("drop", "errdisable"):
    GLOBAL.add(f"{_WATCHDOG} action {_done}", partial(_action, action=_done), "What happens to a stuck queue")
GLOBAL.add(f"no {_WATCHDOG} action", partial(_action, action=None))


def _take(editor: Editor, name: str | None = None) -> None:
    for port in editor.targets:
        known = replace(editor.config.ethernets[port], service_profile=name)
        editor.config = editor.config.with_interface(known)


ETHERNET.add("service-profile <list>", _take, "Take a QoS profile")
for _pattern in ("no service-profile", "default service-profile"):
    ETHERNET.add(_pattern, _take)
ETHERNET.add("no service-profile <list>", lambda editor, _: _take(editor))
