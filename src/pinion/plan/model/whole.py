"""The whole plan of a site."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pinion.plan.model.base import Planned
from pinion.plan.model.cluster import ClusterPlan
from pinion.plan.model.devices import DevicePlan, DeviceTypePlan, PlatformPlan, RackPlan
from pinion.plan.model.flows import FlowPlan
from pinion.plan.model.hosts import HostPlan
from pinion.plan.model.networks import VlanPlan
from pinion.plan.model.switches import SwitchPlan
from pinion.routing.policy import RoutingPolicy
from pinion.site.model import Delivery


class TrafficClassPlan(Planned):
    """One traffic class, its share as a fraction of the link.

    *delivery* is what the site states, *applied* what its NICs and switches do: see `pinion.plan.traffic`.
    """

    name: str
    share: float
    dscp: int
    delivery: Delivery
    applied: Delivery


class RolloutPlan(Planned):
    """How a fleet run goes: *canary* hosts, then the share *second* of all (a fraction), then the rest.

    *limits* is the most hosts of an inventory group in one wave.
    """

    canary: int = 1
    second: float = 0.1
    limits: dict[str, int] = Field(default_factory=dict)


class AuthorityPlan(Planned):
    """Who gives the hosts their certificates: step-ca at *url*, on *host* where the site runs it; for names in *domain* and *networks*.

    *lifetime* is that of a certificate, in seconds: what is not renewed is over after that.
    """

    url: str
    host: str | None
    domain: str
    networks: tuple[str, ...]
    lifetime: int


class Plan(Planned):
    """Everything that follows from one Site. *schema_version* is raised when the meaning or the shape of the JSON changes."""

    schema_version: Literal[1] = 1
    site: str
    region: str
    description: str
    racks: tuple[RackPlan, ...]
    vlans: tuple[VlanPlan, ...]
    traffic_classes: tuple[TrafficClassPlan, ...]
    device_types: tuple[DeviceTypePlan, ...]
    platforms: tuple[PlatformPlan, ...]
    devices: tuple[DevicePlan, ...]
    switches: tuple[SwitchPlan, ...]
    flows: tuple[FlowPlan, ...]
    hosts: tuple[HostPlan, ...]
    rollout: RolloutPlan = RolloutPlan()
    cluster: ClusterPlan | None
    authority: AuthorityPlan | None = None
    routing: RoutingPolicy

    def vlan(self, name: str) -> VlanPlan:
        """The VLAN called *name*; `KeyError` when there is none."""
        for vlan in self.vlans:
            if vlan.name == name:
                return vlan
        raise KeyError(name)

    def device(self, name: str) -> DevicePlan:
        """The device called *name*; `KeyError` when there is none."""
        for device in self.devices:
            if device.name == name:
                return device
        raise KeyError(name)
