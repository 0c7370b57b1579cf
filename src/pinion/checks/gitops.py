"""Claims about a cluster that Flux or Argo CD owns: each part of the tree is made, and is as the tree says."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.checks.model import Check, ClusterProbe, Topic
from pinion.plan.model import ClusterPlan
from pinion.render.gitops import argocd, flux
from pinion.render.gitops.names import OBJECTS, RELEASES, own_name
from pinion.site.catalog import Evidence
from pinion.site.model import ClusterOwner


def remedy(owner: ClusterOwner, kind: str, name: str) -> str:
    """Where *owner* says why it has not made *name*."""
    namespace = flux.NAMESPACE if owner is ClusterOwner.FLUX else argocd.NAMESPACE
    return f"see what its owner says: kubectl -n {namespace} describe {kind.lower()} {name}"


def of_objects(site: str, owner: ClusterOwner) -> str:
    """Where *owner* says why it has not made an object of the cluster's own."""
    return remedy(owner, "Kustomization" if owner is ClusterOwner.FLUX else "Application", own_name(site, OBJECTS))


def owners_claims(site: str, cluster: ClusterPlan, best: Evidence) -> Iterator[Check]:
    """The claims; none where the stack owns the cluster."""
    releases = [release.name for release in cluster.releases]
    if cluster.owner is ClusterOwner.FLUX:
        parts = [("Kustomization", own_name(site, part)) for part in ("", OBJECTS, RELEASES)]
        facts = [("ready", "is Ready", "True")]
        wanted = [*parts, *(("HelmRelease", name) for name in releases)]
        namespace = flux.NAMESPACE
    elif cluster.owner is ClusterOwner.ARGOCD:
        wanted = [("Application", name) for name in (own_name(site), own_name(site, OBJECTS), *releases)]
        facts = [("synced", "is", "Synced"), ("health", "is", "Healthy")]
        namespace = argocd.NAMESPACE
    else:
        return
    for kind, name in wanted:
        for fact, claim, expected in facts:
            yield Check(
                id=f"cluster.{kind.lower()}.{name}.{fact}",
                topic=Topic.CLUSTER,
                subject=name,
                claim=f"{kind} {name} {claim}",
                expected=expected,
                probe=ClusterProbe(object=kind, namespace=namespace, name=name, fact=fact),
                remedy=remedy(cluster.owner, kind, name),
                origin="kubernetes.owner",
                best=best,
            )
