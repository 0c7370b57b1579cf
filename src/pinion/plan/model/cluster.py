"""The Kubernetes cluster: nodes, namespaces and releases."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pinion.plan.model.base import Planned
from pinion.plan.model.devices import DeviceKind
from pinion.site.model import ClusterOwner

#: Kubernetes documentation, Pod Security Standards.
PodSecurity = Literal["privileged", "baseline", "restricted"]


class Taint(Planned):
    """A Kubernetes taint."""

    key: str
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodePlan(Planned):
    """One Kubernetes node: *address* is the kubelet's node address (no mask)."""

    name: str
    kind: DeviceKind
    address: str
    labels: dict[str, str]
    taints: tuple[Taint, ...] = ()
    origin: str


class NamespacePlan(Planned):
    """A namespace with a ServiceAccount for its workloads and a NetworkPolicy that denies all traffic that no other policy allows.

    *pod_security* and *pod_security_told* are levels of Kubernetes' Pod Security Standards: pods beyond the first are refused, of pods
    beyond the second their makers and the audit log are told.
    """

    name: str
    service_account: str
    default_deny: bool = True
    pod_security: PodSecurity = "baseline"
    pod_security_told: PodSecurity = "restricted"


class StatedObject(Planned):
    """An object of the cluster that a stack declares, by what identifies it there."""

    kind: str
    namespace: str | None = None
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ReleasePlan(Planned):
    """One Helm release. *chart* is a folder of `charts/`; *values* its values, complete. *port* answers HTTP at *probe_path*.

    *answers_within* is the 95th percentile that the latency of its answers is to have, in seconds, where the site states one.
    """

    name: str
    namespace: str
    chart: str
    values: dict[str, object]
    port: int
    probe_path: str
    answers_within: float | None = None
    origin: str


class RepositoryPlan(Planned):
    """A git repository: *folder* of its *branch* holds the tree that Flux or Argo CD makes the cluster from.

    *credentials* is the name of a Secret of Flux, None where it needs none.
    """

    url: str
    branch: str
    folder: str
    credentials: str | None = None


class ClusterPlan(Planned):
    """The site's Kubernetes cluster. *server* is the API server's URL.

    *owner* makes the namespaces, what is in them, and the releases; nodes' labels and taints and the list of members are the stack's
    always.

    *members* are the names of all who may be nodes of it, by the kind that each is: the site's nodes and management hosts that stay. Empty
    where Pinion joins nobody: then the cluster's own tool says who may.
    """

    server: str
    control_plane: str
    pod_prefix: str
    service_prefix: str
    nodes: tuple[NodePlan, ...]
    namespaces: tuple[NamespacePlan, ...]
    releases: tuple[ReleasePlan, ...]
    members: dict[str, DeviceKind] = Field(default_factory=dict)
    owner: ClusterOwner = ClusterOwner.PULUMI
    repository: RepositoryPlan | None = None
