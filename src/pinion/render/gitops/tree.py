"""All files of a tree, and what of the cluster is in none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.plan.manifests import namespace_manifests, stated
from pinion.plan.model import ClusterPlan, Plan, RepositoryPlan
from pinion.render.gitops import argocd, flux
from pinion.render.gitops.names import CHARTS, KUSTOMIZATION, OBJECTS, RELEASES, kustomization, text
from pinion.render.gitops.readme import readme
from pinion.site.model import ClusterOwner

#: Path to content of each chart that the plan names.
Charts = Mapping[str, Mapping[str, bytes]]


class NoTreeError(ValueError):
    """The site has no tree of the kind that was asked for: why, and what to state."""


@dataclass(frozen=True)
class Left:
    """Something that the stack applies and a tree does not: *what*, which *objects*, and *why*."""

    what: str
    objects: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Tree:
    """*files* are path to content, in order; *left* is what stays with the stack."""

    site: str
    tool: ClusterOwner
    files: Mapping[str, bytes]
    left: tuple[Left, ...]


def tree(plan: Plan, tool: ClusterOwner, charts: Charts) -> Tree:
    """The tree of *plan* for *tool*, Flux or Argo CD. The same bytes for the same plan and charts.

    Raises `NoTreeError` when the site has no cluster, does not say where its tree lies, or says that another tool owns the cluster.
    """
    cluster, repository = _wanted(plan, tool)
    files: dict[str, bytes] = {}
    names = []
    for namespace in cluster.namespaces:
        for manifest in namespace_manifests(plan.site, namespace):
            item = stated(manifest)
            names.append(f"{namespace.name}-{item.kind.lower()}-{item.name}.yaml")
            files[f"{OBJECTS}/{names[-1]}"] = text(manifest)
    files[f"{OBJECTS}/{KUSTOMIZATION}"] = kustomization(names)
    of_release = flux.release if tool is ClusterOwner.FLUX else argocd.release
    for release in cluster.releases:
        files[f"{RELEASES}/{release.name}.yaml"] = of_release(plan.site, repository, release)
        files |= {f"{CHARTS}/{release.chart}/{path}": content for path, content in charts[release.chart].items()}
    files[f"{RELEASES}/{KUSTOMIZATION}"] = kustomization([f"{release.name}.yaml" for release in cluster.releases])
    if tool is ClusterOwner.FLUX:
        root, parts = flux.entries(plan.site, repository), []
    else:
        root, parts = argocd.entries(plan.site, repository, cluster.namespaces), [RELEASES]
    files |= root
    files[KUSTOMIZATION] = kustomization([*root, *parts])
    left = _left(cluster)
    files["README.md"] = readme(
        plan.site, tool, repository, [(item.what, item.objects, item.why) for item in left]
    ).encode()
    return Tree(plan.site, tool, dict(sorted(files.items())), left)


def _wanted(plan: Plan, tool: ClusterOwner) -> tuple[ClusterPlan, RepositoryPlan]:
    if plan.cluster is None:
        raise NoTreeError(f"site {plan.site} has no cluster: its site file has no section kubernetes")
    if plan.cluster.repository is None:
        raise NoTreeError(
            f"site {plan.site} does not say where its tree lies; write into its site file under kubernetes: "
            f"repository: {{url: …, folder: clusters/{plan.site}}}"
        )
    if plan.cluster.owner not in {ClusterOwner.PULUMI, tool}:
        raise NoTreeError(
            f"site {plan.site} says kubernetes.owner: {plan.cluster.owner}; a cluster has one owner, so no tree for {tool}"
        )
    return plan.cluster, plan.cluster.repository


def _left(cluster: ClusterPlan) -> tuple[Left, ...]:
    """What of *cluster* a tree does not hold."""
    found = []
    marked = [node for node in cluster.nodes if node.labels]
    if marked:
        why = (
            "a node registers itself, and who applies a Node object makes one where none is: a node that was taken away would come back "
            "as a name without a machine"
        )
        found.append(Left("labels of nodes", tuple(f"Node {node.name}" for node in marked), why))
    tainted = [node for node in cluster.nodes if node.taints]
    if tainted:
        why = "who applies taints owns the node's whole list of them, and would take away those of Kubernetes and of people"
        found.append(Left("taints of nodes", tuple(f"Node {node.name}" for node in tainted), why))
    if cluster.members:
        why = "`pinion decommission` takes a node off this list and proves that it is refused, at once and not when somebody has merged"
        found.append(Left("who may be a node", (f"ConfigMap {MEMBERS_NAMESPACE}/{MEMBERS}",), why))
    return tuple(found)
