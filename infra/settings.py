"""Where the program's facts come from: the site file for what the site is, the stack's configuration for where its services are."""

from __future__ import annotations

import pulumi

from pinion.plan import Plan, plan
from pinion.plan.model import ClusterPlan
from pinion.site.find import site_file
from pinion.site.loader import SiteErrors, load, not_applied


def planned_site() -> Plan:
    """The plan of the site that the stack is named after. All problems of its file are one error of the run, and nothing is touched.

    What the file states and nothing obeys yet is a warning of the run.
    """
    path = site_file(pulumi.get_stack())
    try:
        planned = plan(load(path))
    except SiteErrors as errors:
        raise pulumi.RunError(str(errors)) from None
    unobeyed = not_applied(path)
    if unobeyed:
        pulumi.log.warn("\n".join(map(str, unobeyed)))
    return planned


def kubeconfig() -> str:
    """The kubeconfig of the site's cluster: a path, or its text."""
    return pulumi.Config("kubernetes").require("kubeconfig")


def absent_nodes(cluster: ClusterPlan, kubeconfig: str) -> frozenset[str]:
    """The names of the planned nodes that have not joined the cluster yet."""
    from pinion.drivers.cluster import absent  # its library takes a moment, and not every site has a cluster

    return absent(cluster, kubeconfig)


def refused_nodes(cluster: ClusterPlan, kubeconfig: str) -> frozenset[str]:
    """The names of nodes that the cluster has and that may not renew their certificates."""
    from pinion.drivers.cluster import refused

    return refused(cluster, kubeconfig)
