"""Which nodes of a plan the cluster has."""

from __future__ import annotations

from pinion.drivers.cluster.errors import ClusterError
from pinion.drivers.cluster.reader import ClusterReader
from pinion.plan.model import ClusterPlan


def absent(plan: ClusterPlan, kubeconfig: str) -> frozenset[str]:
    """The names of the planned nodes that have not joined the cluster of *kubeconfig* (a path, or its text).

    Empty when the cluster cannot be asked: then nobody knows of one that is absent, and whoever goes on as planned is told why it cannot.
    """
    try:
        held = ClusterReader(kubeconfig).names("Node")
    except ClusterError:
        return frozenset()
    return frozenset(node.name for node in plan.nodes) - held
