"""The Helm releases of a site, each from a chart of `charts/` with the values that the plan gives it."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_cluster import GpuCluster
from pinion.plan.cluster import places
from pinion.plan.model import ClusterPlan

#: Seconds that a release may take until its pods are ready: pulling an image over a slow uplink is what takes long.
RELEASE_TIMEOUT = 300

CHARTS = Path(__file__).resolve().parent.parent / "charts"


class EdgeServices(pulumi.ComponentResource):
    """One Helm release a service of the site file. Its pods are waited for when a node that they may run on has joined."""

    def __init__(self, plan: ClusterPlan, cluster: GpuCluster, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pinion:infra:EdgeServices", plan.control_plane, None, opts)
        for release in plan.releases:
            placeable = bool(places(plan, release) - cluster.absent)
            kubernetes.helm.v3.Release(
                release.name,
                name=release.name,
                namespace=release.namespace,
                chart=str(CHARTS / release.chart),
                values=dict(release.values),
                atomic=placeable,
                skip_await=None if placeable else True,
                timeout=RELEASE_TIMEOUT,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    provider=cluster.provider,
                    depends_on=[cluster.namespaces[release.namespace], *cluster.nodes],
                ),
            )
        self.register_outputs({})
