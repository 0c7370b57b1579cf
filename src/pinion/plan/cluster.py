"""The Kubernetes cluster of a site: nodes with labels and taints, namespaces and Helm releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pinion.plan.addressing import host
from pinion.plan.flows import API_SERVER_PORT
from pinion.plan.model import (
    ClusterPlan,
    DeviceKind,
    DevicePlan,
    FlowPlan,
    NamespacePlan,
    NodePlan,
    ReleasePlan,
    RepositoryPlan,
    StatedObject,
    Taint,
)
from pinion.plan.pool import pool_release
from pinion.site.allocation import natural
from pinion.site.model import ClusterOwner, Kubernetes, Site
from pinion.site.pool_models import NAMESPACE, served

#: What the scheduler knows of each kind of node. A GPU server takes only pods that tolerate its taint.
NODE_LABELS: dict[DeviceKind, dict[str, str]] = {
    DeviceKind.PI: {"edge": "pi", "arch": "arm64"},
    DeviceKind.GPU_SERVER: {"gpu": "nvlink", "kubernetes.io/nvlink": "true"},
}
NODE_TAINTS: dict[DeviceKind, tuple[Taint, ...]] = {
    DeviceKind.PI: (),
    DeviceKind.GPU_SERVER: (Taint(key="special", value="true", effect="NoSchedule"),),
}

#: Namespaces of labels in which a kubelet may give its own node none but a few, and does not start when it is told to (Kubernetes
#: documentation, NodeRestriction). The stack gives them.
_KUBERNETES = ("kubernetes.io", "k8s.io")

#: The ConfigMap with the names of all who may be nodes; `drivers/hosts/cluster_access.yaml` says what comes of not being in it.
MEMBERS, MEMBERS_NAMESPACE = "pinion-nodes", "kube-system"

#: The label by which everything that a stack makes in the cluster says whose it is; its value is the site's name.
SITE_LABEL = "pinion/site"
#: The annotation of what somebody else made and the stack took over: a destroy leaves it.
ADOPTED = "pinion/adopted"
#: The policy of a namespace that denies what no other allows.
DEFAULT_DENY = "default-deny"

#: The port that every chart of ours answers HTTP on inside the pod, and the path that its readiness probe asks for.
SERVICE_PORT = 8080
PROBE_PATH = "/healthz"

#: Seconds that a release may take until its pods are ready: pulling an image over a slow uplink is what takes long.
RELEASE_TIMEOUT = 300
#: Revisions of a release that helm keeps.
RELEASE_HISTORY = 10
#: The folder of charts, from the repository's root.
CHARTS = "charts"


def cluster(site: Site, devices: tuple[DevicePlan, ...], flows: tuple[FlowPlan, ...]) -> ClusterPlan | None:
    """The cluster, or None when the site file has no `kubernetes` section. *flows* are the site's."""
    if site.kubernetes is None:
        return None
    stated: Kubernetes = site.kubernetes
    kinds = {DeviceKind.GPU_SERVER, DeviceKind.PI} if stated.pis_join else {DeviceKind.GPU_SERVER}
    namespaces = [
        NamespacePlan(name=name, service_account=_account(name))
        for name in sorted({service.namespace for service in site.services.values()})
    ]
    if served(site):
        own = NamespacePlan(name=NAMESPACE, service_account=_account(NAMESPACE), pod_security="restricted")
        namespaces.append(own)
    releases = [_release(site, name) for name in sorted(site.services, key=natural)]
    releases += [
        pool_release(site, name, place=_on_gpu_servers(None), account=_account(NAMESPACE), flows=flows)
        for name in sorted(served(site), key=natural)
    ]
    return ClusterPlan(
        server=server_url(site, devices),
        control_plane=stated.control_plane,
        pod_prefix=stated.pod_prefix,
        service_prefix=stated.service_prefix,
        nodes=tuple(_node(device) for device in devices if device.kind in kinds),
        namespaces=tuple(namespaces),
        releases=tuple(releases),
        members=_members(site, devices, {*kinds, DeviceKind.MANAGEMENT_HOST}),
        owner=stated.owner,
        repository=RepositoryPlan(**stated.repository.model_dump()) if stated.repository is not None else None,
    )


def _members(site: Site, devices: Iterable[DevicePlan], kinds: Collection[DeviceKind]) -> dict[str, DeviceKind]:
    """Who may be a node. It hangs on what the site states, not on who is left: the last that leaves is to be refused too."""
    joins = site.concerns.edge_cluster is not None or (site.concerns.kube_node and site.concerns.kube_node.join)
    return {device.name: device.kind for device in devices if device.kind in kinds} if joins else {}


def server_url(site: Site, devices: Iterable[DevicePlan]) -> str:
    """Where nodes and operators reach the API server: the control plane's address on the fabric."""
    assert site.kubernetes is not None
    control_plane = next(device for device in devices if device.name == site.kubernetes.control_plane)
    address = host(control_plane.interfaces[1].addresses[0])
    return f"https://{f'[{address}]' if ':' in address else address}:{API_SERVER_PORT}"


def stated_objects(cluster: ClusterPlan) -> tuple[StatedObject, ...]:
    """The objects that the stack declares, beside nodes and releases; those of namespaces only where the cluster is the stack's."""
    members = (StatedObject(kind="ConfigMap", namespace=MEMBERS_NAMESPACE, name=MEMBERS),) if cluster.members else ()
    namespaces = cluster.namespaces if cluster.owner is ClusterOwner.PULUMI else ()
    return (*members, *(item for namespace in namespaces for item in namespace_objects(namespace)))


def namespace_objects(namespace: NamespacePlan) -> tuple[StatedObject, ...]:
    """A namespace, and what is declared in it."""
    policy = (StatedObject(kind="NetworkPolicy", namespace=namespace.name, name=DEFAULT_DENY),)
    return (
        StatedObject(kind="Namespace", name=namespace.name),
        StatedObject(kind="ServiceAccount", namespace=namespace.name, name=namespace.service_account),
        *(policy if namespace.default_deny else ()),
    )


def security_labels(namespace: NamespacePlan) -> dict[str, str]:
    """The labels by which the API server holds the pods of *namespace* to its levels (Kubernetes documentation, Pod Security Admission)."""
    told = namespace.pod_security_told
    modes = {"enforce": namespace.pod_security, "warn": told, "audit": told}
    return {f"pod-security.kubernetes.io/{mode}": level for mode, level in modes.items()}


def own_labels(kind: DeviceKind) -> dict[str, str]:
    """The labels of a node of *kind* that its own kubelet registers it with."""
    return {key: value for key, value in NODE_LABELS[kind].items() if not _reserved(key)}


def _reserved(label: str) -> bool:
    namespace = label.rpartition("/")[0]
    return any(namespace == reserved or namespace.endswith(f".{reserved}") for reserved in _KUBERNETES)


def _node(device: DevicePlan) -> NodePlan:
    return NodePlan(
        name=device.name,
        kind=device.kind,
        address=host(device.primary_address or ""),
        labels=NODE_LABELS[device.kind],
        taints=NODE_TAINTS[device.kind],
        origin=device.origin,
    )


def places(cluster: ClusterPlan, release: ReleasePlan) -> frozenset[str]:
    """The names of the nodes that pods of *release* may run on."""
    selector = release.values["nodeSelector"]
    assert isinstance(selector, Mapping)
    return frozenset(
        node.name
        for node in cluster.nodes
        if selector.items() <= {**node.labels, "kubernetes.io/hostname": node.name}.items()
    )


def _account(namespace: str) -> str:
    """The ServiceAccount of the workloads in *namespace*."""
    return f"{namespace}-workload"


def _on_gpu_servers(server: str | None) -> dict[str, object]:
    """The values by which a chart's pods run on GPU servers, or on *server* alone."""
    selector = dict(NODE_LABELS[DeviceKind.GPU_SERVER])
    if server is not None:
        selector["kubernetes.io/hostname"] = server
    tolerations = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in NODE_TAINTS[DeviceKind.GPU_SERVER]
    ]
    return {"nodeSelector": selector, "tolerations": tolerations}


def _release(site: Site, name: str) -> ReleasePlan:
    service = site.services[name]
    return ReleasePlan(
        name=name,
        namespace=service.namespace,
        chart=service.chart,
        values={
            "replicas": service.replicas,
            **_on_gpu_servers(service.server),
            "serviceAccount": _account(service.namespace),
            "port": SERVICE_PORT,
            "probePath": PROBE_PATH,
        },
        port=SERVICE_PORT,
        probe_path=PROBE_PATH,
        origin=f"services.{name}",
    )
