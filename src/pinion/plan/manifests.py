"""The cluster's own objects, whole, as whoever owns the cluster applies them: the stack, or Flux or Argo CD. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE, SITE_LABEL, namespace_objects, security_labels
from pinion.plan.model import ClusterPlan, NamespacePlan, StatedObject

#: One object as the Kubernetes API takes it.
Manifest = Mapping[str, JsonValue]

_API_VERSIONS = {"Namespace": "v1", "ServiceAccount": "v1", "ConfigMap": "v1", "NetworkPolicy": "networking.k8s.io/v1"}


def members_manifest(site: str, cluster: ClusterPlan) -> Manifest:
    """The list of all who may be nodes."""
    item = StatedObject(kind="ConfigMap", namespace=MEMBERS_NAMESPACE, name=MEMBERS)
    return _manifest(site, item, {"data": {name: kind.value for name, kind in cluster.members.items()}})


def namespace_manifests(site: str, namespace: NamespacePlan) -> tuple[Manifest, ...]:
    """A namespace of *site*, and what is declared in it; the namespace first."""
    contents: Mapping[str, dict[str, JsonValue]] = {
        "ServiceAccount": {"automountServiceAccountToken": False},
        "NetworkPolicy": {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}},
    }
    labels = {"Namespace": security_labels(namespace)}
    return tuple(
        _manifest(site, item, contents.get(item.kind, {}), labels.get(item.kind))
        for item in namespace_objects(namespace)
    )


def stated(manifest: Manifest) -> StatedObject:
    """What identifies *manifest* in the cluster."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, Mapping)
    return StatedObject.model_validate(
        {"kind": manifest["kind"], "namespace": metadata.get("namespace"), "name": metadata["name"]}
    )


def _manifest(
    site: str, item: StatedObject, content: Mapping[str, JsonValue], labels: Mapping[str, str] | None = None
) -> Manifest:
    place: dict[str, JsonValue] = {"namespace": item.namespace} if item.namespace else {}
    metadata: dict[str, JsonValue] = {"name": item.name, **place, "labels": {SITE_LABEL: site, **(labels or {})}}
    return {"apiVersion": _API_VERSIONS[item.kind], "kind": item.kind, "metadata": metadata, **content}
