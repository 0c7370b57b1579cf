"""The kinds of objects that we speak of: where the API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class ObjectKind:
    """One kind of object. *plural* names its collection in the API's paths; *namespaced* objects live in a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The path of a collection, or of the object *name* in it. `ValueError` when a namespace is missing or one too many."""
        if name is not None and self.namespaced != (namespace is not None):
            raise ValueError(f"{self.kind} {name}: {'needs a' if self.namespaced else 'has no'} namespace")
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
        return f"{root}{inside}/{self.plural}" + (f"/{quote(name, safe=':')}" if name is not None else "")


#: Every kind that Pinion reads or declares.
KINDS: dict[tuple[str, str], ObjectKind] = {
    (kind.api_version, kind.kind): kind
    for kind in (
        ObjectKind("v1", "Namespace", "namespaces", namespaced=False),
        ObjectKind("v1", "Node", "nodes", namespaced=False),
        ObjectKind("v1", "ServiceAccount", "serviceaccounts", namespaced=True),
        ObjectKind("v1", "ConfigMap", "configmaps", namespaced=True),
        ObjectKind("v1", "Secret", "secrets", namespaced=True),
        ObjectKind("v1", "Service", "services", namespaced=True),
        ObjectKind("v1", "Pod", "pods", namespaced=True),
        ObjectKind("v1", "Event", "events", namespaced=True),
        ObjectKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True),
        ObjectKind("apps/v1", "Deployment", "deployments", namespaced=True),
        ObjectKind("apps/v1", "DaemonSet", "daemonsets", namespaced=True),
        ObjectKind("apps/v1", "StatefulSet", "statefulsets", namespaced=True),
        ObjectKind("batch/v1", "Job", "jobs", namespaced=True),
        ObjectKind("batch/v1", "CronJob", "cronjobs", namespaced=True),
        ObjectKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", namespaced=True),
        ObjectKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True),
        ObjectKind("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", namespaced=True),
        ObjectKind("helm.toolkit.fluxcd.io/v2", "HelmRelease", "helmreleases", namespaced=True),
        ObjectKind("argoproj.io/v1alpha1", "Application", "applications", namespaced=True),
        ObjectKind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True),
    )
}


def kind_of(kind: str, api_version: str | None = None) -> ObjectKind:
    """The kind called *kind*, of *api_version* when that is given. `KeyError` when we do not know it."""
    for known in KINDS.values():
        if known.kind == kind and api_version in (None, known.api_version):
            return known
    raise KeyError(f"{api_version or ''}/{kind}")
