"""Ranges, prefixes and VLANs."""

from __future__ import annotations

from typing import Literal

from pinion.plan.model.base import Planned
from pinion.site.model import Purpose


class RangePlan(Planned):
    """An inclusive span of host addresses. *prefix* is the prefix (by text) that contains it; *dhcp* tells who hands it out."""

    name: str
    start: str
    end: str
    prefix: str
    dhcp: bool = False


class PrefixPlan(Planned):
    """One prefix of a VLAN. *gateway* is the router's address without mask, or None when the prefix is not routed."""

    prefix: str
    family: Literal[4, 6]
    gateway: str | None


class VlanPlan(Planned):
    """One VLAN. *fabric* is false for out-of-band networks, which no fabric port carries. *mtu* is the layer-3 MTU of its hosts."""

    name: str
    vid: int
    purpose: Purpose
    description: str
    mtu: int
    fabric: bool
    prefixes: tuple[PrefixPlan, ...]
    ranges: tuple[RangePlan, ...]
    origin: str
