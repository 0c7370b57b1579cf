"""One site as Pulumi resources. The stack's name is the site's; everything is derived from its site file by `pinion.plan`."""

from __future__ import annotations

import pulumi

from cluster_state import cluster_state
from edge_services import EdgeServices
from fabric import Fabric
from gpu_cluster import GpuCluster
from pinion.plan.model import ClusterPlan
from pinion.site.model import ClusterOwner
from settings import kubeconfig, kubernetes_plugin, planned_site, refuse_to_delete_what_others_own
from site_records import SiteRecords

plan = planned_site()
if plan.cluster is not None and plan.cluster.owner is not ClusterOwner.PULUMI:
    refuse_to_delete_what_others_own(plan.cluster.owner)

records = SiteRecords(plan)
fabric = Fabric(plan, pulumi.ResourceOptions(depends_on=[records]))


def on_cluster(planned: ClusterPlan, kubeconfig: str, plugin: str | None, *, fabric_is_there: bool) -> list[str]:
    """What the cluster is to hold, as far as its nodes have joined; the names of those that have not."""
    state = cluster_state(plan.site, planned, kubeconfig, may_be_unreachable=not fabric_is_there)
    cluster = GpuCluster(plan.site, planned, kubeconfig, plugin, state, pulumi.ResourceOptions(depends_on=[fabric]))
    if state.refused:
        names = ", ".join(sorted(state.refused))
        pulumi.log.warn(
            f"nodes of the cluster that are not of this site, and renew nothing: {names}; docs/joining.md", cluster
        )
    if planned.owner is ClusterOwner.PULUMI:
        EdgeServices(plan.site, planned, cluster, pulumi.ResourceOptions(depends_on=[cluster]))
    return sorted(state.absent)


if plan.cluster is not None:
    stated = plan.cluster, kubeconfig(), kubernetes_plugin()
    # once the switches are configured: the API server may be out of reach before
    pulumi.export("awaited", fabric.configured.apply(lambda known: on_cluster(*stated, fabric_is_there=known)))

pulumi.export("site", plan.site)
pulumi.export("devices", len(plan.devices))
pulumi.export("netbox", pulumi.Config("netbox").require("url"))
