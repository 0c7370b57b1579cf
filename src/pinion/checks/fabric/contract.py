"""What the site file and the catalogue say that every file must agree with: the classes, and what a switch's platform and model have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.plan.model import Plan
from pinion.site.catalog import Catalog, EcnThresholds, PlatformQos
from pinion.site.model import Delivery, Site

#: The class of the RDMA NICs: they mark it, and switches mark congestion in it.
RDMA = "rdma"
#: RFC 3168: the two bits beside the DSCP that say that the sender heeds congestion marks, ECT(0).
ECT0 = 0b10


@dataclass(frozen=True, slots=True)
class Contract:
    """The classes of a site. *percent* is by class; *lossless* are the classes that nobody drops; *vids* are by network, *mtus* by VLAN.

    *rdma_networks* are those of RDMA NICs.
    """

    dscp: Mapping[str, int]
    percent: Mapping[str, float]
    lossless: frozenset[str]
    vids: Mapping[str, int]
    mtus: Mapping[int, int]
    rdma_networks: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> Contract:
        """The contract of *plan*."""
        classes = plan.traffic_classes
        return cls(
            dscp={one.name: one.dscp for one in classes},
            percent={one.name: one.share * 100 for one in classes},
            lossless=frozenset(one.name for one in classes if one.applied is Delivery.LOSSLESS),
            vids={vlan.name: vlan.vid for vlan in plan.vlans},
            mtus={vlan.vid: vlan.mtu for vlan in plan.vlans},
            rdma_networks=frozenset(vlan.name for vlan in plan.vlans if vlan.purpose == "rdma"),
        )

    def priority(self, name: str) -> int:
        """The priority of the packets of class *name*: the upper three bits of their DSCP (RFC 2474)."""
        return self.dscp[name] // 8

    @property
    def paused(self) -> frozenset[int]:
        """The priorities that PFC pauses."""
        return frozenset(self.priority(name) for name in self.lossless)

    @property
    def tolerance(self) -> float:
        """How far a whole percentage may be from the stated one: under 1, and 1 more for each class that was raised to 1 %."""
        return 1.0 + sum(percent < 1 for percent in self.percent.values())


@dataclass(frozen=True, slots=True)
class Box:
    """What one switch is: its platform's *qos*, where that puts congestion notifications, and what its model has."""

    qos: PlatformQos
    cnp_dscp: int | None
    max_mtu: int
    buffer: int | None
    ecn: EcnThresholds | None

    @classmethod
    def of(cls, site: Site, catalog: Catalog, name: str) -> Box | None:
        """The switch *name* of *site*; None where its platform has no queues that Pinion knows."""
        stated = site.switches[name]
        platform, model = catalog.platforms[stated.platform], catalog.switches[stated.model]
        if platform.qos is None:
            return None
        return cls(platform.qos, platform.cnp_dscp, model.max_mtu, model.buffer, model.ecn)

    def traffic_class(self, dscp: int) -> int:
        """The traffic class, and the queue, of packets with *dscp*."""
        return self.qos.traffic_classes[dscp // 8]


@dataclass(frozen=True, slots=True, order=True)
class Contradiction:
    """One statement that does not agree: where (*line* 0: it is missing in *file*), what is *wrong*, and what to change."""

    file: str
    line: int
    wrong: str
    fix: str

    def __str__(self) -> str:
        """One line."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place} {self.wrong}: {self.fix}"
