"""Who may talk to whom."""

from __future__ import annotations

from typing import Literal

from pinion.plan.model.base import Planned
from pinion.plan.model.devices import DeviceKind


class FlowPlan(Planned):
    """Who opens connections to whom, on which ports. What no flow names is refused; answers belong to the flow.

    *peers* says in words who they are; *sources* are their addresses, each a prefix, an address or a span (``10.0.0.1-10.0.0.8``).
    They talk to all devices of *kinds*, and to those in *hosts*: names of devices or of groups of Pis; and to the pods of *releases*, which
    NetworkPolicies guard instead of the hosts' firewalls.
    """

    name: str
    peers: str
    sources: tuple[str, ...]
    kinds: tuple[DeviceKind, ...] = ()
    hosts: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    protocol: Literal["tcp", "udp"]
    ports: tuple[int, ...]
    why: str
    origin: str
