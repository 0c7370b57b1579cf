"""Which nodes of a plan the cluster has, and which it has that are of no plan."""

from __future__ import annotations

from pinion.drivers.cluster.reader import ClusterReader
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.plan.model import ClusterPlan


def absent(plan: ClusterPlan, reader: ClusterReader) -> frozenset[str]:
    """The names of the planned nodes that have not joined the cluster. Raises `ClusterError`."""
    return frozenset(node.name for node in plan.nodes) - reader.names("Node")


def refused(plan: ClusterPlan, reader: ClusterReader) -> frozenset[str]:
    """The names of nodes that the cluster has and that are of the site no more, or never were: where Pinion says who may be a node
    (`ClusterPlan.members`), they do not renew their certificates. Without those that somebody has entered beside ours.

    Raises `ClusterError`.
    """
    if not plan.members:
        return frozenset()
    entered = reader.get("ConfigMap", MEMBERS, MEMBERS_NAMESPACE) or {}
    return reader.names("Node") - plan.members.keys() - (entered.get("data") or {}).keys()
