"""How the fabric treats each traffic class. Pure.

A lossless class needs PFC at both ends of every cable: a NIC that pauses for a switch that never does, or the other way round, is worse
than neither. So it is lossless where the driver of every switch of the site turns PFC on, and lossy everywhere until then.
"""

from __future__ import annotations

from pinion.plan.model import TrafficClassPlan
from pinion.site.catalog import Catalog
from pinion.site.model import Delivery, Site, TrafficClass
from pinion.site.quantities import fraction


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


def applied_delivery(site: Site, catalog: Catalog, stated: TrafficClass) -> Delivery:
    """How NICs and switches really treat the class *stated*: the same at both, which is lossy unless all switches can do as stated."""
    both = bool(site.switches) and all(catalog.platforms[switch.platform].pfc for switch in site.switches.values())
    return stated.delivery if both else Delivery.LOSSY
