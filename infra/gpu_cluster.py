"""The Kubernetes cluster on the NVLink servers: node labels and taints, namespaces with their accounts and default-deny policies."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from cluster_state import ClusterState
from pinion.drivers.kubeconfig import is_text
from pinion.plan.cluster import ADOPTED, MEMBERS
from pinion.plan.manifests import Manifest, members_manifest, namespace_manifests, stated
from pinion.plan.model import ClusterPlan, NamespacePlan, NodePlan
from pinion.provider import sdk
from pinion.provider.cluster.node import NodeMarks
from pinion.site.model import ClusterOwner

#: The resource of each kind that the plan declares, and the fields whose arguments have another name.
_RESOURCES = {
    "Namespace": kubernetes.core.v1.Namespace,
    "ServiceAccount": kubernetes.core.v1.ServiceAccount,
    "ConfigMap": kubernetes.core.v1.ConfigMap,
    "NetworkPolicy": kubernetes.networking.v1.NetworkPolicy,
}
_ARGUMENT = {"automountServiceAccountToken": "automount_service_account_token"}


class GpuCluster(pulumi.ComponentResource):
    """What the cluster of *site* must hold before any service is placed on it. *kubeconfig* is a path, or its text, which is a secret;
    *plugin* the version of the Kubernetes plugin, None for Pulumi's own. Nodes that are absent by *state* get their labels and taints with
    the first update after they have joined.

    Attributes:
        absent: the names of the planned nodes that the cluster does not have yet.
        nodes: the marks of the nodes that it has.
        namespaces: namespace name to its resource; none where Flux or Argo CD owns the cluster.
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
            # keys that somebody else adds are theirs
            self._declared(MEMBERS, members_manifest(site, cluster), own)
        self.nodes = [
            _node(node, pulumi.ResourceOptions(parent=self)) for node in cluster.nodes if node.name not in self.absent
        ]
        namespaces = cluster.namespaces if cluster.owner is ClusterOwner.PULUMI else ()
        self.namespaces = {namespace.name: self._namespace(namespace, own) for namespace in namespaces}
        self.register_outputs({})

    def _declared(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.Resource:
        """*manifest* as the resource *name*, with the marks of ownership. What someone changed by hand in fields that we state is put
        right, instead of ending in a conflict of field owners; and the owner is the same in each run, so that a stack which lost its state
        takes away what it stated. What somebody else made stays when the stack goes.
        """
        item = stated(manifest)
        ours = {"pulumi.com/patchForce": "true", "pulumi.com/patchFieldManager": f"pinion-{self._site}"}
        adopted = item in self._adopted
        metadata = {**manifest["metadata"], "annotations": ours | ({ADOPTED: "true"} if adopted else {})}
        content = {
            _ARGUMENT.get(key, key): value
            for key, value in manifest.items()
            if key not in {"apiVersion", "kind", "metadata"}
        }
        kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=adopted))
        return _RESOURCES[item.kind](name, metadata=metadata, **content, opts=kept)

    def _namespace(self, namespace: NamespacePlan, opts: pulumi.ResourceOptions) -> pulumi.Resource:
        whole, *contents = namespace_manifests(self._site, namespace)
        made = self._declared(namespace.name, whole, opts)
        inside = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
        for manifest in contents:
            item = stated(manifest)
            # a policy is called the same in each namespace, and two resources cannot be
            name = f"{namespace.name}-{item.name}" if item.kind == "NetworkPolicy" else item.name
            self._declared(name, manifest, inside)
        return made


def _node(node: NodePlan, opts: pulumi.ResourceOptions) -> sdk.cluster.Node:
    """Labels and taints of a node that its kubelet has registered; we own these and nothing else of it."""
    marks = NodeMarks(name=node.name, labels=node.labels, taints=node.taints)
    return sdk.cluster.Node(node.name, marks, origin=node.origin, opts=opts)
