"""The Helm releases of a site, each from a chart of `charts/` with the values that the plan gives it."""

from __future__ import annotations

import pulumi

from gpu_cluster import GpuCluster
from pinion.plan.cluster import CHARTS, RELEASE_TIMEOUT, places
from pinion.plan.model import ClusterPlan
from pinion.provider import sdk
from pinion.provider.cluster.release import ReleaseWish


class EdgeServices(pulumi.ComponentResource):
    """One Helm release a service of the site file. Its pods are waited for when a node that they may run on has joined."""

    def __init__(
        self, site: str, plan: ClusterPlan, cluster: GpuCluster, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("pinion:infra:EdgeServices", plan.control_plane, None, opts)
        for release in plan.releases:
            placeable = bool(places(plan, release) - cluster.absent)
            sdk.cluster.Release(
                release.name,
                ReleaseWish(
                    site=site,
                    namespace=release.namespace,
                    name=release.name,
                    chart=f"{CHARTS}/{release.chart}",
                    values=dict(release.values),
                    wait=placeable,
                    timeout=RELEASE_TIMEOUT,
                ),
                origin=release.origin,
                opts=pulumi.ResourceOptions(
                    parent=self, depends_on=[cluster.namespaces[release.namespace], *cluster.nodes]
                ),
            )
        self.register_outputs({})
