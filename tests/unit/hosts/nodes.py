"""Concerns of Pis and GPU servers, as plans state them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from unit.hosts.sites import DC, LAB, planned

from pinion.plan import Plan
from pinion.plan.kubelet import UNIT
from pinion.plan.model import Concern, DeviceKind, HostFile, HostPlan

#: The concerns that only Pis or only GPU servers have.
NODE_CONCERNS = (
    "pi_boot",
    "pi_tuning",
    "power_thermal",
    "accelerator",
    "model_store",
    "edge_runtime",
    "gpu_tuning",
    "cpu_isolation",
    "nic_tuning",
    "gpu_driver",
    "container_runtime",
    "kube_node",
)
#: What dc-rack-12 would state beside its own to have a cluster that its Pis join.
JOINED: dict[str, Any] = {
    "management_hosts": {
        "mgmt-1": {
            "profile": "generic-1u-2x10gbase-t",
            "rack": "r12",
            "unit": 40,
            "network": "management",
            "fabric_network": "control",
            "port": "tor-1 Ethernet48",
        }
    },
    "kubernetes": {"control_plane": "mgmt-1"},
}
#: What has hosts join it.
JOINING: dict[str, dict[str, Any]] = {
    "edge_cluster": {"edge_cluster": {}},
    "kube_node": {"cpu_isolation": {}, "container_runtime": {}, "kube_node": {"join": {}}},
}
#: The concerns that have a page and a golden text of what a host of dc-rack-12 gets.
PAGES = (*NODE_CONCERNS, "edge_cluster")

#: What has no default.
NEEDED: dict[str, dict[str, Any]] = {
    "gpu_driver": {"version": "580.95.05"},
    "model_store": {"key": yaml.safe_load(DC.read_text())["concerns"]["model_store"]["key"]},
}


def stated(site: Path = DC, concerns: dict[str, Any] | None = None, **changes: object) -> Plan:
    """The plan of *site* with *concerns* (all of these pages, with their defaults, unless stated) and other top-level keys replaced."""
    chosen = (
        {name: NEEDED.get(name, {}) for name in NODE_CONCERNS if site == DC or name in LAB_CONCERNS}
        if concerns is None
        else concerns
    )
    return planned(site, concerns=chosen, **changes)


def shown(name: str) -> tuple[HostPlan, Concern]:
    """The first host of dc-rack-12 that has the concern *name*, with the defaults, and the concern; a node of a cluster where it can be."""
    plan = stated(DC, JOINING[name], **JOINED) if name in JOINING else stated()
    return next((host, host.concerns[name]) for host in plan.hosts if name in host.concerns)


#: Those that a machine of the lab can have.
LAB_CONCERNS = tuple(yaml.safe_load(LAB.read_text()).get("concerns", {}))


def first(plan: Plan, kind: DeviceKind) -> HostPlan:
    """The first host of *kind*."""
    return next(host for host in plan.hosts if host.kind is kind)


def concern(plan: Plan, kind: DeviceKind, name: str) -> Concern:
    """The concern *name* of the first host of *kind*."""
    return first(plan, kind).concerns[name]


def file(found: Concern, path: str) -> HostFile:
    """The file *path* of a concern."""
    (one,) = [entry for entry in found.files if entry.path == path]
    return one


def starts(found: Concern) -> list[str]:
    """The words that the kubelet of a host that joins is started with."""
    unit = file(found, f"/etc/systemd/system/{UNIT}").content
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


def sysctls(host: HostPlan) -> dict[str, str]:
    """All kernel parameters of *host*, by whichever concern."""
    return {sysctl.key: sysctl.value for entry in host.concerns.values() for sysctl in entry.sysctls}
