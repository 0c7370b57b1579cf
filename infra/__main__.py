"""One site as Pulumi resources. The stack's name is the site's; everything is derived from its site file by `pinion.plan`."""

from __future__ import annotations

import pulumi

from edge_services import EdgeServices
from fabric import Fabric
from gpu_cluster import GpuCluster
from settings import planned_site
from site_records import SiteRecords

plan = planned_site()

records = SiteRecords(plan)
fabric = Fabric(plan, pulumi.ResourceOptions(depends_on=[records]))

if plan.cluster is not None:
    cluster = GpuCluster(plan.cluster, pulumi.ResourceOptions(depends_on=[fabric]))
    services = EdgeServices(plan.cluster, cluster, pulumi.ResourceOptions(depends_on=[cluster]))

pulumi.export("site", plan.site)
pulumi.export("devices", len(plan.devices))
pulumi.export("netbox", pulumi.Config("netbox").require("url"))
