"""Traffic classes in a configuration. What the data plane does with them is nothing: Open vSwitch has no lossless buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: The traffic class of a packet by its priority (802.1p, or DSCP / 8), unless told (EOS User Manual, "Quality of Service").
TRAFFIC_CLASSES = (1, 0, 2, 3, 4, 5, 6, 7)
#: The words of a map: what it maps, to what.
DSCP_MAP, COS_MAP = ("dscp", "traffic-class"), ("cos", "traffic-class")
QUEUE_MAP, REWRITE_MAP = ("traffic-class", "tx-queue"), ("traffic-class", "cos")


def default_of(kind: tuple[str, str], source: int) -> int:
    """What *source* is mapped to unless told."""
    if kind == DSCP_MAP:
        return TRAFFIC_CLASSES[source >> 3]
    if kind == COS_MAP:
        return TRAFFIC_CLASSES[source]
    return TRAFFIC_CLASSES.index(source) if kind == REWRITE_MAP else source


@dataclass(frozen=True)
class Ecn:
    """Where a queue begins to mark packets and where it marks most, both in *unit*, how many it marks there, in percent, and the weight."""

    minimum: int
    maximum: int
    unit: str
    probability: int
    weight: int


@dataclass(frozen=True)
class TxQueue:
    """One transmit queue of a profile: served first, or in turn with the others (*round_robin*) by its *share*; percentages."""

    number: int
    round_robin: bool = False
    share: int | None = None
    guaranteed: int | None = None
    ecn: Ecn | None = None


@dataclass(frozen=True)
class Profile:
    """A QoS profile: what the ports do that take it. *no_drop* are the priorities that PFC would pause."""

    name: str
    trust: str | None = None
    pfc: bool = False
    watchdog: bool = False
    no_drop: frozenset[int] = frozenset()
    queues: Mapping[int, TxQueue] = field(default_factory=dict)


@dataclass(frozen=True)
class Qos:
    """The traffic classes. *maps* are by their two words (``dscp``, ``traffic-class``) and what they map: only what is not as it would be.

    *timers* are those of the PFC watchdog by their word, in ms.
    """

    maps: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    timers: Mapping[str, int] = field(default_factory=dict)
    action: str | None = None

    def with_profile(self, profile: Profile) -> Qos:
        """With *profile* added or replaced."""
        profiles = {**self.profiles, profile.name: profile}
        return replace(self, profiles={name: profiles[name] for name in sorted(profiles)})

    def without_profile(self, name: str) -> Qos:
        """Without the profile *name*. Ports that name it keep doing so, and get nothing from it."""
        return replace(self, profiles={known: profile for known, profile in self.profiles.items() if known != name})

    def mapped(self, kind: tuple[str, str], source: int) -> int:
        """What *source* is mapped to."""
        return self.maps.get((*kind, source), default_of(kind, source))

    def with_map(self, kind: tuple[str, str], sources: tuple[int, ...], to: int | None) -> Qos:
        """With each of *sources* mapped to *to*; None for what it would be anyway."""
        maps = dict(self.maps)
        for source in sources:
            if to is None or to == default_of(kind, source):
                maps.pop((*kind, source), None)
            else:
                maps[(*kind, source)] = to
        return replace(self, maps={key: maps[key] for key in sorted(maps)})
