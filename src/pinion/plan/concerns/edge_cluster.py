"""The concern `edge_cluster`: a Raspberry Pi joins the site's cluster (`pinion.plan.joining`), with a containerd of its own."""

from __future__ import annotations

from pinion.plan.context import HostContext
from pinion.plan.edge_pod import PODS
from pinion.plan.joining import joined
from pinion.plan.kubelet import CONTAINERD_MODULES, CONTAINERD_UNIT, containerd_file, cri, network_plugins, runc
from pinion.plan.model import Concern, DeviceKind, HostUnit
from pinion.site.node_concerns import EVICTED_BELOW, EdgeCluster

NAME = "edge_cluster"

#: What a board's kubelet is told beyond any node's: memory without swap, and a card that wears.
_FIELDS: dict[str, object] = {
    "evictionHard": {
        "memory.available": f"{EVICTED_BELOW}%",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
    },
    # an image that is deleted is written to the card again when it is next needed
    "imageMinimumGCAge": "24h",
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 70,
    "containerLogMaxSize": "5Mi",
    "containerLogMaxFiles": 2,
    "serializeImagePulls": True,
    # On the way down the kubelet would end the runtime's pod at once, under the requests that it has. So it ends none: systemd stops the
    # runtime's unit, which drains it, then the kubelet, then containerd, and containers last of all (runc: scopes without dependencies).
    "shutdownGracePeriod": "0s",
    "shutdownGracePeriodCriticalPods": "0s",
}


def joins(host: HostContext) -> EdgeCluster | None:
    """The settings of the concern where *host* gets it: Pis that are nodes of the site's cluster."""
    cluster = host.site.kubernetes
    return host.settings.edge_cluster if cluster and cluster.pis_join and host.kind is DeviceKind.PI else None


def edge_cluster(host: HostContext) -> Concern | None:
    """The concern for *host*."""
    settings = joins(host)
    if settings is None:
        return None
    # the edge runtime is stated in this folder: it serves also while nobody reaches the API server
    found = joined(host, NAME, settings, _FIELDS, pods=PODS)
    if host.lab:  # a lab machine's containerd belongs to the lab's cluster
        return found
    return found.model_copy(
        update={
            "packages": tuple(sorted((*found.packages, "containerd", "runc"))),
            "files": (containerd_file(NAME, _containerd(settings)), *found.files),
            "modules": CONTAINERD_MODULES,
            "units": (HostUnit(name=CONTAINERD_UNIT, enabled=True, active=True), *found.units),
        }
    )


def _containerd(settings: EdgeCluster) -> list[str]:
    return [*cri(settings.pause), "", *network_plugins(), "", *runc()]
