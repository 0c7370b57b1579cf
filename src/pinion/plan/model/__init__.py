"""The Plan: everything that follows from a Site, typed, frozen, ordered and serialisable.

Invariants:

* Pure data: addresses and prefixes are text in their canonical form, so the JSON is the same bytes on any machine.
* Every collection is a tuple in a defined order (natural order of names, or the order of the site file where that has meaning).
* Executors obey: whatever a template, role, deploy or resource needs to know is a field here.
* `origin` names the key of the site file that an object follows from (``pis.pi 3``), so that drift is told in the user's words.
"""

from __future__ import annotations

from pinion.plan.model.base import Planned
from pinion.plan.model.cluster import (
    ClusterPlan,
    NamespacePlan,
    NodePlan,
    ReleasePlan,
    RepositoryPlan,
    StatedObject,
    Taint,
)
from pinion.plan.model.devices import (
    CableEnd,
    DeviceKind,
    DevicePlan,
    DeviceStatus,
    DeviceTypePlan,
    InterfacePlan,
    PlatformPlan,
    PortMode,
    RackPlan,
)
from pinion.plan.model.flows import FlowPlan
from pinion.plan.model.hosts import (
    CLAIM_SECONDS,
    Concern,
    HostApproval,
    HostClaim,
    HostDirectory,
    HostFile,
    HostKernelArgument,
    HostMaterial,
    HostModule,
    HostPlan,
    HostSysctl,
    HostUnit,
    HostUser,
    package_reason,
)
from pinion.plan.model.networks import PrefixPlan, RangePlan, VlanPlan
from pinion.plan.model.qos import EcnMarking, MapTarget, PauseWatchdog, QosMap, QosProfile, QosQueue, SwitchQos
from pinion.plan.model.switch_state import (
    DEFAULT_MTU,
    DEFAULT_VLAN,
    SSH_LIST,
    Mode,
    PortState,
    SshGuard,
    SviState,
    SwitchState,
    VlanState,
    ordered_addresses,
    port_order,
    vid_ranges,
)
from pinion.plan.model.switches import Svi, SwitchPlan, SwitchPort, SwitchVlan
from pinion.plan.model.whole import AuthorityPlan, Plan, RolloutPlan, TrafficClassPlan

__all__ = [
    "CLAIM_SECONDS",
    "DEFAULT_MTU",
    "DEFAULT_VLAN",
    "SSH_LIST",
    "AuthorityPlan",
    "CableEnd",
    "ClusterPlan",
    "Concern",
    "DeviceKind",
    "DevicePlan",
    "DeviceStatus",
    "DeviceTypePlan",
    "EcnMarking",
    "FlowPlan",
    "HostApproval",
    "HostClaim",
    "HostDirectory",
    "HostFile",
    "HostKernelArgument",
    "HostMaterial",
    "HostModule",
    "HostPlan",
    "HostSysctl",
    "HostUnit",
    "HostUser",
    "InterfacePlan",
    "MapTarget",
    "Mode",
    "NamespacePlan",
    "NodePlan",
    "PauseWatchdog",
    "Plan",
    "Planned",
    "PlatformPlan",
    "PortMode",
    "PortState",
    "PrefixPlan",
    "QosMap",
    "QosProfile",
    "QosQueue",
    "RackPlan",
    "RangePlan",
    "ReleasePlan",
    "RepositoryPlan",
    "RolloutPlan",
    "SshGuard",
    "StatedObject",
    "Svi",
    "SviState",
    "SwitchPlan",
    "SwitchPort",
    "SwitchQos",
    "SwitchState",
    "SwitchVlan",
    "Taint",
    "TrafficClassPlan",
    "VlanPlan",
    "VlanState",
    "ordered_addresses",
    "package_reason",
    "port_order",
    "vid_ranges",
]
