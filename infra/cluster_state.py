"""What the cluster holds before anything is declared in it: one look, and one error when there can be none."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi

from pinion.drivers.kubeconfig import is_text
from pinion.plan.model import ClusterPlan, StatedObject
from settings import adopts


@dataclass(frozen=True)
class ClusterState:
    """Planned nodes that have not joined (*absent*), nodes that may not renew (*refused*), stated objects that others made (*adopted*)."""

    absent: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    adopted: frozenset[StatedObject] = field(default_factory=frozenset)


def cluster_state(site: str, cluster: ClusterPlan, kubeconfig: str, *, may_be_unreachable: bool) -> ClusterState:
    """Look. Raises `pulumi.RunError` when the API server cannot be asked, unless it *may_be_unreachable*, which is a warning then; and when
    it holds objects of somebody else under names that are declared.
    """
    from pinion.drivers.cluster import ClusterError, ClusterReader, absent, ownership, refused  # takes a moment
    from pinion.plan.cluster import stated_objects

    try:
        reader = ClusterReader(kubeconfig)
        owned = ownership(site, stated_objects(cluster), reader, adopt=adopts())
        state = ClusterState(absent(cluster, reader), refused(cluster, reader), owned.adopted)
    except ClusterError as error:
        where = "kubernetes:kubeconfig" if is_text(kubeconfig) else f"kubernetes:kubeconfig ({kubeconfig})"
        text = f"the cluster cannot be asked, so nothing of it is planned: {error}\nIs {where} right, and is the API server up?"
        if not may_be_unreachable:
            raise pulumi.RunError(text) from None
        pulumi.log.warn(
            f"{error}; the switches on the way are yet to be configured, so all nodes are taken to be there"
        )
        return ClusterState()
    if owned.strangers:
        rest = "Or give it another name in the site file; or have all that is nobody's taken over: pulumi config set pinion:adopt true"
        raise pulumi.RunError("\n".join([*owned.strangers, rest]))
    for item in sorted(owned.unmarked, key=str):
        pulumi.log.info(f"{item} is of a stack of an earlier release of Pinion; it gets the site's mark")
    return state
