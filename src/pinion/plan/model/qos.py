"""How a switch treats traffic classes: what the plan wants, what a parser reads from a switch, and what a writer makes text of."""

from __future__ import annotations

from typing import Literal

from pinion.plan.model.base import Planned

#: What a map gives: a packet its traffic class, a traffic class its transmit queue or its 802.1p priority.
MapTarget = Literal["traffic-class", "tx-queue", "cos"]


class QosMap(Planned):
    """One entry of a map of the switch: DSCP to traffic class, traffic class to transmit queue, or traffic class to 802.1p priority.

    *origin* is the key of the site file that it follows from, empty for one that was read from a switch.
    """

    target: MapTarget
    source: int
    to: int
    origin: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """What there is one entry of: the map, and the value that it maps."""
        return self.target, self.source


class EcnMarking(Planned):
    """From *minimum_kbytes* in a queue on, packets are marked (RFC 3168), ever more of them: *probability* percent at *maximum_kbytes*."""

    minimum_kbytes: int
    maximum_kbytes: int
    probability: int


class QosQueue(Planned):
    """One transmit queue of a port.

    *share* is its percentage of a congested port among the queues that have one; None: it is always served first. *guaranteed* is the
    percentage that even those leave to it. *other* are configuration lines that Pinion has no word for.
    """

    queue: int
    share: int | None = None
    guaranteed: int | None = None
    ecn: EcnMarking | None = None
    other: tuple[str, ...] = ()


class QosProfile(Planned):
    """What ports of one kind do. *no_drop* are the priorities that PFC pauses; *watchdog*: a pause that does not end is noticed.

    *cable_metres* is the length of cable whose packets in flight the switch keeps room for, None for its own choice. *trust* tells what of
    a packet says its class. *other* are configuration lines that Pinion has no word for.
    """

    name: str
    trust: Literal["dscp", "cos"] | None = None
    pfc: bool = False
    no_drop: tuple[int, ...] = ()
    watchdog: bool = False
    cable_metres: int | None = None
    queues: tuple[QosQueue, ...] = ()
    other: tuple[str, ...] = ()


class PauseWatchdog(Planned):
    """When a paused queue counts as stuck, how often that is looked at, and when it counts as well again, in ms; None is the switch's own.

    *action* is what happens to a stuck queue; *other* are configuration lines that Pinion has no word for.
    """

    timeout_ms: int | None = None
    polling_ms: int | None = None
    recovery_ms: int | None = None
    action: str | None = None
    other: tuple[str, ...] = ()


class SwitchQos(Planned):
    """The traffic classes as one switch has them. A plan states each entry of a map, also where it is the switch's default.

    *lossless_percent* of its packet memory are for priorities that are paused; None where the switch divides it by itself.
    """

    maps: tuple[QosMap, ...] = ()
    profiles: tuple[QosProfile, ...] = ()
    watchdog: PauseWatchdog | None = None
    lossless_percent: int | None = None

    def profile(self, name: str) -> QosProfile | None:
        """The profile *name*, None when there is none."""
        return next((profile for profile in self.profiles if profile.name == name), None)
