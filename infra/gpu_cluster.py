"""The Kubernetes cluster on the NVLink servers: node labels and taints, namespaces with their accounts and default-deny policies."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from cluster_state import ClusterState
from pinion.drivers.kubeconfig import is_text
from pinion.plan.cluster import (
    ADOPTED,
    DEFAULT_DENY,
    MEMBERS,
    MEMBERS_NAMESPACE,
    SITE_LABEL,
    namespace_objects,
    security_labels,
)
from pinion.plan.model import ClusterPlan, NamespacePlan, NodePlan, StatedObject
from pinion.provider import sdk
from pinion.provider.cluster.node import NodeMarks


class GpuCluster(pulumi.ComponentResource):
    """What the cluster of *site* must hold before any service is placed on it. *kubeconfig* is a path, or its text, which is a secret;
    *plugin* the version of the Kubernetes plugin, None for Pulumi's own. Nodes that are absent by *state* get their labels and taints with
    the first update after they have joined.

    Attributes:
        absent: the names of the planned nodes that the cluster does not have yet.
        nodes: the marks of the nodes that it has.
        namespaces: namespace name to its resource.
    """

    def __init__(
        self,
        site: str,
        cluster: ClusterPlan,
        kubeconfig: str,
        plugin: str | None,
        state: ClusterState,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("pinion:infra:GpuCluster", cluster.control_plane, None, opts)
        provider = kubernetes.Provider(
            "cluster",
            kubeconfig=pulumi.Output.secret(kubeconfig) if is_text(kubeconfig) else kubeconfig,
            # the cluster is the site's whatever its address: another one replaces nothing
            cluster_identifier=site,
            enable_server_side_apply=True,
            # what exists is taken by name; `cluster_state` has refused what is not ours
            upsert_existing_objects=True,
            # else a name that leaves would have the list of members replaced, with a moment in between at which there is none
            enable_config_map_mutable=True,
            opts=pulumi.ResourceOptions(parent=self, version=plugin),
        )
        own = pulumi.ResourceOptions(parent=self, provider=provider)
        self._site, self._adopted = site, state.adopted
        self.absent = state.absent
        if self.absent:
            names = ", ".join(node.name for node in cluster.nodes if node.name in self.absent)
            pulumi.log.warn(f"not in the cluster yet: {names}; labels and taints follow once they have joined", self)
        if cluster.members:
            self._members(cluster, own)
        self.nodes = [
            _node(node, pulumi.ResourceOptions(parent=self)) for node in cluster.nodes if node.name not in self.absent
        ]
        self.namespaces = {namespace.name: self._namespace(namespace, own) for namespace in cluster.namespaces}
        self.register_outputs({})

    def _metadata(
        self, item: StatedObject, labels: Mapping[str, str] | None = None
    ) -> kubernetes.meta.v1.ObjectMetaArgs:
        """Names and the marks of ownership. What someone changed by hand in fields that we state is put right, instead of ending in a
        conflict of field owners; and the owner is the same in each run, so that a stack which lost its state takes away what it stated.
        """
        ours = {"pulumi.com/patchForce": "true", "pulumi.com/patchFieldManager": f"pinion-{self._site}"}
        return kubernetes.meta.v1.ObjectMetaArgs(
            name=item.name,
            namespace=item.namespace,
            labels={SITE_LABEL: self._site, **(labels or {})},
            annotations=ours | ({ADOPTED: "true"} if item in self._adopted else {}),
        )

    def _kept(self, item: StatedObject, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        """*opts*, by which what somebody else made stays when the stack goes."""
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=item in self._adopted))

    def _members(self, cluster: ClusterPlan, opts: pulumi.ResourceOptions) -> None:
        """Who may be a node; keys that somebody else adds are theirs."""
        item = StatedObject(kind="ConfigMap", namespace=MEMBERS_NAMESPACE, name=MEMBERS)
        kubernetes.core.v1.ConfigMap(
            MEMBERS,
            metadata=self._metadata(item),
            data={name: kind.value for name, kind in cluster.members.items()},
            opts=self._kept(item, opts),
        )

    def _namespace(self, namespace: NamespacePlan, opts: pulumi.ResourceOptions) -> kubernetes.core.v1.Namespace:
        whole, account, *policies = namespace_objects(namespace)
        made = kubernetes.core.v1.Namespace(
            whole.name, metadata=self._metadata(whole, security_labels(namespace)), opts=self._kept(whole, opts)
        )
        inside = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
        kubernetes.core.v1.ServiceAccount(
            account.name,
            metadata=self._metadata(account),
            automount_service_account_token=False,
            opts=self._kept(account, inside),
        )
        for policy in policies:
            kubernetes.networking.v1.NetworkPolicy(
                f"{namespace.name}-{DEFAULT_DENY}",
                metadata=self._metadata(policy),
                spec=kubernetes.networking.v1.NetworkPolicySpecArgs(
                    pod_selector=kubernetes.meta.v1.LabelSelectorArgs(), policy_types=["Ingress", "Egress"]
                ),
                opts=self._kept(policy, inside),
            )
        return made


def _node(node: NodePlan, opts: pulumi.ResourceOptions) -> sdk.cluster.Node:
    """Labels and taints of a node that its kubelet has registered; we own these and nothing else of it."""
    marks = NodeMarks(name=node.name, labels=node.labels, taints=node.taints)
    return sdk.cluster.Node(node.name, marks, origin=node.origin, opts=opts)
