"""What each host must be, concern by concern.

To add a concern: its settings in `pinion.site.concerns`, a module in `pinion.plan.concerns` with one pure function, and its line in
`CONCERNS`. `roles/`, `deploys/` and the checks follow from there.
"""

from __future__ import annotations

from collections.abc import Callable

from pinion.plan import ownership
from pinion.plan.concerns.accelerator import accelerator
from pinion.plan.concerns.access import access
from pinion.plan.concerns.base import base
from pinion.plan.concerns.container_runtime import container_runtime
from pinion.plan.concerns.cpu_isolation import cpu_isolation
from pinion.plan.concerns.edge_cluster import edge_cluster
from pinion.plan.concerns.edge_runtime import edge_runtime
from pinion.plan.concerns.firewall import firewall
from pinion.plan.concerns.gpu_driver import gpu_driver
from pinion.plan.concerns.gpu_tuning import gpu_tuning
from pinion.plan.concerns.identity import identity
from pinion.plan.concerns.kube_node import kube_node
from pinion.plan.concerns.model_store import model_store
from pinion.plan.concerns.nic_tuning import nic_tuning
from pinion.plan.concerns.node_metrics import node_metrics
from pinion.plan.concerns.os_tuning import os_tuning
from pinion.plan.concerns.pi_boot import pi_boot
from pinion.plan.concerns.pi_tuning import pi_tuning
from pinion.plan.concerns.power_thermal import power_thermal
from pinion.plan.concerns.site_ca import site_ca
from pinion.plan.concerns.watchdog import watchdog
from pinion.plan.context import HostContext
from pinion.plan.model import Concern

#: Every concern, in the order in which they are applied. Each gives None for a host that does not get it.
CONCERNS: tuple[Callable[[HostContext], Concern | None], ...] = (
    access,  # before all others: who comes to mend what they broke must get in
    os_tuning,
    base,
    watchdog,
    node_metrics,
    firewall,
    site_ca,
    identity,
    pi_boot,
    pi_tuning,
    power_thermal,
    accelerator,
    edge_cluster,  # before what may run as its pod
    edge_runtime,
    model_store,  # after it: who fetches a model has somebody to tell
    gpu_tuning,
    cpu_isolation,
    nic_tuning,
    gpu_driver,
    container_runtime,
    kube_node,
)


def concern_names() -> tuple[str, ...]:
    """The names of all concerns that there are, in the order in which they are applied."""
    return tuple(concern.__name__ for concern in CONCERNS)


def host_concerns(host: HostContext) -> dict[str, Concern]:
    """The concerns of *host*, by name, in the order in which they are applied. Raises `OwnershipError` when two state one thing."""
    found = [stated for stated in (concern(host) for concern in CONCERNS) if stated is not None]
    ownership.check(host.name, found)
    return {concern.name: concern for concern in found}
