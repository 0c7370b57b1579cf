"""A tree for Argo CD: an AppProject, an Application of the tree itself, one of the objects, and one a release.

Fields and their meaning: Argo CD documentation, Application and AppProject specifications, Helm, Sync Options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from pinion.plan.model import NamespacePlan, ReleasePlan, RepositoryPlan
from pinion.render.gitops.flux import values
from pinion.render.gitops.names import CHARTS, OBJECTS, Document, own_name, text, within

#: Where Argo CD runs, and what it calls the cluster that it runs in (Argo CD documentation, installation, declarative setup).
NAMESPACE: Final = "argocd"
_CLUSTER: Final = "https://kubernetes.default.svc"
_VERSION: Final = "argoproj.io/v1alpha1"


def entries(site: str, repository: RepositoryPlan, namespaces: Sequence[NamespacePlan]) -> Mapping[str, bytes]:
    """The files of the tree's root: what may be made where, the tree itself, and the objects."""
    places = [NAMESPACE, *sorted(namespace.name for namespace in namespaces)]
    project: dict[str, JsonValue] = {
        "description": f"The cluster of site {site}",
        "sourceRepos": [repository.url],
        "destinations": [{"server": _CLUSTER, "namespace": place} for place in places],
        "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
    }
    whole = _application(site, own_name(site), repository, repository.folder, NAMESPACE)
    objects = _application(site, own_name(site, OBJECTS), repository, within(repository, OBJECTS), NAMESPACE)
    return {
        "project.yaml": text(_object("AppProject", own_name(site), project)),
        "applications.yaml": text(whole, objects),
    }


def release(site: str, repository: RepositoryPlan, planned: ReleasePlan) -> bytes:
    """The Application of *planned*. It is called as the release is, so that Argo CD's older way of marking what it made (the label
    `app.kubernetes.io/instance`) changes nothing.
    """
    helm: dict[str, JsonValue] = {
        "releaseName": planned.name,
        "skipTests": True,  # helm makes a chart's tests only when somebody asks for them
        "valuesObject": values(planned),
    }
    path = within(repository, CHARTS, planned.chart)
    return text(_application(site, planned.name, repository, path, planned.namespace, {"helm": helm}))


def _application(
    site: str,
    name: str,
    repository: RepositoryPlan,
    path: str,
    namespace: str,
    source: Mapping[str, JsonValue] | None = None,
) -> Document:
    return _object(
        "Application",
        name,
        {
            "project": own_name(site),
            "source": {"repoURL": repository.url, "targetRevision": repository.branch, "path": path, **(source or {})},
            "destination": {"server": _CLUSTER, "namespace": namespace},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True, "allowEmpty": True},
                "syncOptions": ["ServerSideApply=true"],
                # the objects come before the releases that need them, or the releases try again
                "retry": {"limit": -1, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}},
            },
        },
    )


def _object(kind: str, name: str, spec: Mapping[str, JsonValue]) -> Document:
    metadata: dict[str, JsonValue] = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}
