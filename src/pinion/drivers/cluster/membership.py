"""Which nodes of a plan the cluster has, and which it has that are of no plan."""

from __future__ import annotations

from pinion.drivers.cluster.errors import ClusterError
from pinion.drivers.cluster.reader import ClusterReader
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
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


def refused(plan: ClusterPlan, kubeconfig: str) -> frozenset[str]:
    """The names of nodes that the cluster has and that are of the site no more, or never were: where Pinion says who may be a node
    (`ClusterPlan.members`), they do not renew their certificates. Without those that somebody has entered beside ours.

    Empty when the cluster cannot be asked.
    """
    if not plan.members:
        return frozenset()
    try:
        reader = ClusterReader(kubeconfig)
        held = reader.names("Node")
        entered = reader.get("ConfigMap", MEMBERS, MEMBERS_NAMESPACE) or {}
    except ClusterError:
        return frozenset()
    return held - plan.members.keys() - (entered.get("data") or {}).keys()
