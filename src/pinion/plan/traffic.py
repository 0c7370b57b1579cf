"""How the fabric treats each traffic class: maps, queues, shares, ECN and PFC, as the site states and the catalogue allows. Pure.

A lossless class needs PFC at both ends of every cable: a NIC that pauses for a switch that never does, or the other way round, is worse
than neither. So it is lossless where every switch of the site and every RDMA NIC can pause its priority and is told to, and lossy
everywhere else. Ports of hosts that are no end of RDMA never pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pinion.plan.model import EcnMarking, PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchQos, TrafficClassPlan
from pinion.site.catalog import Catalog, Platform, PlatformQos, SwitchModel
from pinion.site.model import Delivery, Site, TrafficClass
from pinion.site.quantities import fraction

#: Of the ports whose other end pauses too: RDMA NICs, and other switches of the site.
LOSSLESS_PROFILE = "pinion-lossless"
#: Of all other ports.
LOSSY_PROFILE = "pinion-lossy"
#: The class whose senders heed ECN marks (RoCEv2 with DCQCN), so the one that is marked.
MARKED_CLASS = "rdma"


def traffic_classes(site: Site, catalog: Catalog) -> tuple[TrafficClassPlan, ...]:
    """The traffic classes of *site*, as stated and as applied."""
    return tuple(
        TrafficClassPlan(
            name=name,
            share=fraction(stated.share),
            dscp=stated.dscp,
            delivery=stated.delivery,
            applied=applied_delivery(site, catalog, stated),
        )
        for name, stated in site.traffic_classes.items()
    )


def priority(dscp: int) -> int:
    """The priority of a packet by its DSCP: its class selector, RFC 2474."""
    return dscp >> 3


def applied_delivery(site: Site, catalog: Catalog, stated: TrafficClass) -> Delivery:
    """How NICs and switches really treat the class *stated*: the same at both, which is lossy unless all of them can do as stated."""
    if stated.delivery is not Delivery.LOSSLESS or not site.switches:
        return Delivery.LOSSY
    switches = all(
        catalog.switches[switch.model].lossless and _pauses(catalog.platforms[switch.platform], priority(stated.dscp))
        for switch in site.switches.values()
    )
    return Delivery.LOSSLESS if switches and _nics_pause(site, catalog) else Delivery.LOSSY


def _pauses(platform: Platform, number: int) -> bool:
    return platform.qos is not None and number in platform.qos.lossless_priorities


def _nics_pause(site: Site, catalog: Catalog) -> bool:
    """Whether every RDMA NIC can pause and is told to: `nic_tuning` tells it."""
    profiles = [catalog.servers[server.profile] for server in site.gpu_servers.values() if server.rdma is not None]
    can = all(
        profile.rdma_nic is not None and catalog.nics[profile.rdma_nic].data_centre_bridging for profile in profiles
    )
    return can and (not profiles or site.concerns.nic_tuning is not None)


def lossless_priorities(site: Site, catalog: Catalog) -> tuple[int, ...]:
    """The priorities that NICs and switches pause, in ascending order."""
    return tuple(
        sorted(
            priority(stated.dscp)
            for stated in site.traffic_classes.values()
            if applied_delivery(site, catalog, stated) is Delivery.LOSSLESS
        )
    )


# --- what a switch gets -------------------------------------------------------------------------------------------------


def switch_qos(site: Site, catalog: Catalog, platform: Platform, model: SwitchModel) -> SwitchQos | None:
    """The traffic classes on a switch of *model* that runs *platform*; None where the site has none, or the platform no queues."""
    qos = platform.qos
    if qos is None or not site.traffic_classes:
        return None
    pausing = lossless_priorities(site, catalog)
    lossy = tuple(sorted(_queues(site, platform, qos, model), key=lambda queue: queue.queue))
    profiles = [QosProfile(name=LOSSY_PROFILE, trust="dscp", queues=lossy)]
    if pausing:
        watched = {qos.traffic_classes[number]: {"guaranteed": qos.watchdog.guaranteed} for number in pausing}
        lossless = tuple(queue.model_copy(update=watched.get(queue.queue, {})) for queue in lossy)
        profiles.insert(
            0,
            QosProfile(
                name=LOSSLESS_PROFILE,
                trust="dscp",
                pfc=True,
                no_drop=pausing,
                watchdog=True,
                cable_metres=qos.cable,
                queues=lossless,
            ),
        )
    return SwitchQos(
        maps=tuple(sorted(_maps(site, platform, qos), key=lambda entry: (_MAPS.index(entry.target), entry.source))),
        profiles=tuple(profiles),
        watchdog=_watchdog(qos) if pausing else None,
        lossless_percent=qos.lossless_percent if pausing else None,
    )


#: The maps in the order that a packet goes through them.
_MAPS = ("traffic-class", "tx-queue", "cos")


def _maps(site: Site, platform: Platform, qos: PlatformQos) -> Iterator[QosMap]:
    marks = {stated.dscp: f"traffic_classes.{name}" for name, stated in site.traffic_classes.items()}
    if platform.cnp_dscp is not None:
        marks[platform.cnp_dscp] = "congestion notifications"
    for dscp, origin in marks.items():
        number = qos.traffic_classes[priority(dscp)]
        yield QosMap(target="traffic-class", source=dscp, to=number, origin=origin)
        yield QosMap(target="tx-queue", source=number, to=number, origin=origin)
        yield QosMap(target="cos", source=number, to=priority(dscp), origin=origin)


def _queues(site: Site, platform: Platform, qos: PlatformQos, model: SwitchModel) -> Iterator[QosQueue]:
    percentages = whole_shares({name: fraction(stated.share) for name, stated in site.traffic_classes.items()})
    for name, stated in site.traffic_classes.items():
        yield QosQueue(
            queue=qos.traffic_classes[priority(stated.dscp)],
            share=percentages[name],
            ecn=_marking(model) if name == MARKED_CLASS else None,
        )
    if platform.cnp_dscp is not None:
        yield QosQueue(queue=qos.traffic_classes[priority(platform.cnp_dscp)])


def whole_shares(shares: Mapping[str, float]) -> dict[str, int]:
    """*shares* (fractions that add up to 1) as whole percentages that add up to 100, none of them 0; the largest remainders go up."""
    found = {name: max(1, int(share * 100 + 1e-9)) for name, share in shares.items()}
    by_remainder = sorted(found, key=lambda name: found[name] - shares[name] * 100)
    rest = 100 - sum(found.values())
    for place in range(abs(rest)):
        # too many only where a share below 1 % was raised to 1: the largest one gives it
        name = by_remainder[place % len(by_remainder)] if rest > 0 else max(found, key=lambda each: found[each])
        found[name] += 1 if rest > 0 else -1
    return found


def _marking(model: SwitchModel) -> EcnMarking | None:
    if model.ecn is None:
        return None
    return EcnMarking(
        minimum_kbytes=model.ecn.minimum, maximum_kbytes=model.ecn.maximum, probability=model.ecn.probability
    )


def _watchdog(qos: PlatformQos) -> PauseWatchdog:
    timers = qos.watchdog
    return PauseWatchdog(
        timeout_ms=timers.timeout, polling_ms=timers.polling, recovery_ms=timers.recovery, action=timers.action
    )
