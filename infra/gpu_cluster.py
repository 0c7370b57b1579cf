"""The Kubernetes cluster on the NVLink servers: node labels and taints, namespaces with their accounts and default-deny policies."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from pinion.drivers.kubeconfig import is_text
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE, security_labels
from pinion.plan.model import ClusterPlan, NamespacePlan, NodePlan

#: What someone changed by hand in fields that we state is put right, instead of ending in a conflict of field owners.
_OURS = {"pulumi.com/patchForce": "true"}


class GpuCluster(pulumi.ComponentResource):
    """What the cluster must hold before any service is placed on it. *kubeconfig* is a path, or its text, which is a secret. Nodes that are
    *absent* get their labels and taints with the first update after they have joined.

    Attributes:
        absent: the names of the planned nodes that the cluster does not have yet.
        provider: the Kubernetes provider of this cluster; services use the same one.
        namespaces: namespace name to its resource.
    """

    def __init__(
        self,
        cluster: ClusterPlan,
        kubeconfig: str,
        absent: frozenset[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("pinion:infra:GpuCluster", cluster.control_plane, None, opts)
        self.provider = kubernetes.Provider(
            "cluster",
            kubeconfig=pulumi.Output.secret(kubeconfig) if is_text(kubeconfig) else kubeconfig,
            enable_server_side_apply=True,
            # else a name that leaves would have the list of members replaced, with a moment in between at which there is none
            enable_config_map_mutable=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        own = pulumi.ResourceOptions(parent=self, provider=self.provider)
        self.absent = absent
        if absent:
            names = ", ".join(node.name for node in cluster.nodes if node.name in absent)
            pulumi.log.warn(f"not in the cluster yet: {names}; labels and taints follow once they have joined", self)
        if cluster.members:
            _members(cluster, own)
        self.nodes = [_node(node, own) for node in cluster.nodes if node.name not in absent]
        self.namespaces = {namespace.name: _namespace(namespace, own) for namespace in cluster.namespaces}
        self.register_outputs({})


def _members(cluster: ClusterPlan, opts: pulumi.ResourceOptions) -> kubernetes.core.v1.ConfigMap:
    """Who may be a node; keys that somebody else adds are theirs."""
    return kubernetes.core.v1.ConfigMap(
        MEMBERS,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=MEMBERS, namespace=MEMBERS_NAMESPACE, annotations=_OURS),
        data={name: kind.value for name, kind in cluster.members.items()},
        opts=opts,
    )


def _node(node: NodePlan, opts: pulumi.ResourceOptions) -> kubernetes.core.v1.NodePatch:
    """Labels and taints of a node that its kubelet has registered; we own these fields and no others."""
    return kubernetes.core.v1.NodePatch(
        node.name,
        metadata=kubernetes.meta.v1.ObjectMetaPatchArgs(name=node.name, labels=node.labels, annotations=_OURS),
        spec=kubernetes.core.v1.NodeSpecPatchArgs(
            taints=[
                kubernetes.core.v1.TaintPatchArgs(key=taint.key, value=taint.value, effect=taint.effect)
                for taint in node.taints
            ]
        )
        if node.taints
        else None,
        opts=opts,
    )


def _namespace(namespace: NamespacePlan, opts: pulumi.ResourceOptions) -> kubernetes.core.v1.Namespace:
    made = kubernetes.core.v1.Namespace(
        namespace.name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(
            name=namespace.name,
            annotations=_OURS,
            labels=security_labels(namespace),
        ),
        opts=opts,
    )
    inside = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
    kubernetes.core.v1.ServiceAccount(
        namespace.service_account,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(
            name=namespace.service_account, namespace=namespace.name, annotations=_OURS
        ),
        automount_service_account_token=False,
        opts=inside,
    )
    if namespace.default_deny:
        kubernetes.networking.v1.NetworkPolicy(
            f"{namespace.name}-default-deny",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name="default-deny", namespace=namespace.name, annotations=_OURS
            ),
            spec=kubernetes.networking.v1.NetworkPolicySpecArgs(
                pod_selector=kubernetes.meta.v1.LabelSelectorArgs(), policy_types=["Ingress", "Egress"]
            ),
            opts=inside,
        )
    return made
