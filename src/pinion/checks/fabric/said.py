"""What the files say, each statement with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V", covariant=True)


class UnreadableError(ValueError):
    """A file that cannot be understood; *line* (from 1) tells where."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Said(Generic[V]):
    """A *value* and where it stands; *line* 0: nowhere, it is what holds unless told."""

    value: V
    file: str
    line: int = 0


@dataclass(slots=True)
class SaidEcn:
    """Thresholds in kB, probability in percent; *lines* are where these three stand, where each has a line of its own."""

    minimum: float
    maximum: float
    probability: int
    lines: tuple[int, int, int] | None = None


@dataclass(slots=True)
class SaidQueue:
    """One transmit queue of a profile. *strict*: it is served before those with a share."""

    number: Said[int]
    strict: bool = True
    share: Said[int] | None = None
    guaranteed: Said[int] | None = None
    ecn: Said[SaidEcn] | None = None


@dataclass(slots=True)
class SaidProfile:
    """A QoS profile."""

    name: Said[str]
    trust: Said[str] | None = None
    pfc: Said[bool] | None = None
    watchdog: Said[bool] | None = None
    cable: Said[int] | None = None
    no_drop: list[Said[int]] = field(default_factory=list)
    queues: dict[int, SaidQueue] = field(default_factory=dict)


@dataclass(slots=True)
class SaidPort:
    """A front port. *trunk_lines* are where its VLANs stand, where each has a line of its own."""

    name: Said[str]
    shut: bool = False
    access_vlan: Said[int] | None = None
    trunk_vlans: Said[frozenset[int]] | None = None
    trunk_lines: dict[int, int] = field(default_factory=dict)
    mtu: Said[int] | None = None
    profile: Said[str] | None = None


@dataclass(slots=True)
class SaidSwitch:
    """A switch. *maps* are by what they map (``dscp``, ``tx-queue``, ``cos``) and the value; *timers* in ms by their word.

    *sources* are the lines of what a map maps, where that is not the line of what it leads to. *lossless* and *lossy* are the percentages
    of packet memory. *odd* are what is wrong with single lines.
    """

    file: str
    maps: dict[tuple[str, int], Said[int]] = field(default_factory=dict)
    sources: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    profiles: dict[str, SaidProfile] = field(default_factory=dict)
    ports: dict[str, SaidPort] = field(default_factory=dict)
    gateways: dict[int, Said[int]] = field(default_factory=dict)
    timers: dict[str, Said[int]] = field(default_factory=dict)
    action: Said[str] | None = None
    lossless: list[Said[int]] = field(default_factory=list)
    lossy: list[Said[int]] = field(default_factory=list)
    odd: list[Said[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SaidNic:
    """One NIC by its settings. *priorities* are by DSCP; None for what the card is not told."""

    mtu: Said[int] | None
    boot_mtu: Said[int] | None
    pause: Said[bool] | None
    priorities: Mapping[int, Said[int]]
    pfc: tuple[Said[int], ...] | None
    tos: Said[int] | None
    file: str
