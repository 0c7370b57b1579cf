"""A tree for Flux: a GitRepository, three Kustomizations (the tree itself, the objects, the releases) and a HelmRelease a release.

Fields and their meaning: Flux documentation, API references source.toolkit.fluxcd.io/v1, kustomize.toolkit.fluxcd.io/v1 and
helm.toolkit.fluxcd.io/v2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from pinion.plan.cluster import RELEASE_HISTORY, RELEASE_TIMEOUT
from pinion.plan.model import ReleasePlan, RepositoryPlan
from pinion.render.gitops.names import CHARTS, OBJECTS, RELEASES, Document, own_name, text, within

#: Where Flux runs (Flux documentation, installation).
NAMESPACE: Final = "flux-system"
#: How often Flux asks the repository, and how often it looks for what somebody changed by hand.
_FETCH, _RECONCILE = "1m", "10m"
#: How often a failed upgrade is tried again before the revision before it stays.
_RETRIES: Final = 3


def entries(site: str, repository: RepositoryPlan) -> Mapping[str, bytes]:
    """The files of the tree's root: where the tree is, and what of it is made in which order."""
    name = own_name(site)
    source: dict[str, JsonValue] = {
        "interval": _FETCH,
        "url": repository.url,
        "ref": {"branch": repository.branch},
        # all that the tree needs and nothing else of the repository, so that a commit elsewhere upgrades no release
        "ignore": _only(repository.folder),
    }
    if repository.credentials:
        source["secretRef"] = {"name": repository.credentials}
    parts = (
        _kustomization(site, repository),
        _kustomization(site, repository, OBJECTS),
        _kustomization(site, repository, RELEASES, after=OBJECTS),
    )
    return {
        "source.yaml": text(_object("source.toolkit.fluxcd.io/v1", "GitRepository", name, source)),
        "kustomizations.yaml": text(*parts),
    }


def release(site: str, repository: RepositoryPlan, planned: ReleasePlan) -> bytes:
    """The HelmRelease of *planned*: the same name, namespace and records of helm as the stack's release, so that either takes it over."""
    chart: dict[str, JsonValue] = {
        "chart": f"./{within(repository, CHARTS, planned.chart)}",
        # what a chart holds counts, whether or not its version was changed
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": "GitRepository", "name": own_name(site)},
    }
    return text(
        _object(
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            planned.name,
            {
                "interval": _RECONCILE,
                "releaseName": planned.name,
                "targetNamespace": planned.namespace,
                "storageNamespace": planned.namespace,
                "timeout": f"{RELEASE_TIMEOUT}s",
                "maxHistory": RELEASE_HISTORY,
                "chart": {"spec": chart},
                # nodes may join later
                "install": {"remediation": {"retries": -1}},
                "upgrade": {"remediation": {"retries": _RETRIES, "strategy": "rollback"}},
                "driftDetection": {"mode": "enabled"},
                "values": values(planned),
            },
        )
    )


def values(planned: ReleasePlan) -> dict[str, JsonValue]:
    """The values of a release as JSON has them."""
    dumped: dict[str, JsonValue] = planned.model_dump(mode="json")["values"]
    return dumped


def _only(folder: str) -> str:
    """Patterns (those of .gitignore) that leave out all of a repository but *folder*: a folder is let in before what is in it is."""
    lines = ["/*"]
    steps = folder.split("/")
    for depth in range(1, len(steps) + 1):
        path = "/".join(steps[:depth])
        lines.append(f"!/{path}/")
        if depth < len(steps):
            lines.append(f"/{path}/*")
    return "\n".join(lines) + "\n"


def _kustomization(site: str, repository: RepositoryPlan, part: str = "", after: str = "") -> Document:
    spec: dict[str, JsonValue] = {
        "interval": _RECONCILE,
        "path": f"./{within(repository, part) if part else repository.folder}",
        "sourceRef": {"kind": "GitRepository", "name": own_name(site)},
        "prune": True,
        # a Kustomization that is deleted, as when the cluster goes back to the stack, leaves what it made
        "deletionPolicy": "Orphan",
        "timeout": f"{RELEASE_TIMEOUT}s",
    }
    if part:
        spec["wait"] = True
    if after:
        spec["dependsOn"] = [{"name": own_name(site, after)}]
    return _object("kustomize.toolkit.fluxcd.io/v1", "Kustomization", own_name(site, part), spec)


def _object(version: str, kind: str, name: str, spec: Mapping[str, JsonValue]) -> Document:
    metadata: dict[str, JsonValue] = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": dict(spec)}
