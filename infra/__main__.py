"""One site as Pulumi resources. The stack's name is the site's; everything is derived from its site file by `pinion.plan`."""

from __future__ import annotations

import pulumi

from edge_services import EdgeServices
from fabric import Fabric
from gpu_cluster import GpuCluster
from pinion.plan.model import ClusterPlan
from settings import absent_nodes, kubeconfig, planned_site, refused_nodes
from site_records import SiteRecords

plan = planned_site()

records = SiteRecords(plan)
fabric = Fabric(plan, pulumi.ResourceOptions(depends_on=[records]))


def on_cluster(planned: ClusterPlan, kubeconfig: str) -> list[str]:
    """What the cluster is to hold, as far as its nodes have joined; the names of those that have not."""
    absent = absent_nodes(planned, kubeconfig)
    cluster = GpuCluster(planned, kubeconfig, absent, pulumi.ResourceOptions(depends_on=[fabric]))
    if refused := refused_nodes(planned, kubeconfig):
        names = ", ".join(sorted(refused))
        pulumi.log.warn(
            f"nodes of the cluster that are not of this site, and renew nothing: {names}; docs/joining.md", cluster
        )
    EdgeServices(planned, cluster, pulumi.ResourceOptions(depends_on=[cluster]))
    return sorted(absent)


if plan.cluster is not None:
    stated = plan.cluster, kubeconfig()
    # once the switches are configured: the API server may be out of reach before
    pulumi.export("awaited", fabric.configured.apply(lambda _: on_cluster(*stated)))

pulumi.export("site", plan.site)
pulumi.export("devices", len(plan.devices))
pulumi.export("netbox", pulumi.Config("netbox").require("url"))
