"""A tree and the stack make the same cluster, object by object.

One side is what the real Pulumi program declares (an engine in memory hears it) and what helm renders of each release it declares. The
other is what kubectl's kustomize and helm make of the tree, beginning at its root.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from infra.test_nodes import NODE, RELEASE, Engine, api_server, kubeconfig, update

from gitops.built import MISSING, REPOSITORY, Objects, Rendering, built, keyed, planned, rendered, site
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.plan.concerns import edge_cluster
from pinion.render.gitops import tree
from pinion.site.model import ClusterOwner

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not there: make tools")

TOOLS = (ClusterOwner.FLUX, ClusterOwner.ARGOCD)
#: What a declared object tells Pulumi's plugin, and nobody else.
FOR_THE_PLUGIN = "pulumi.com/"


def lab() -> dict[str, Any]:
    """The lab, with a list of who may be a node, and a second service in a namespace of its own."""
    stated = site("lab")
    stated["concerns"][edge_cluster.NAME] = {}
    stated["services"]["second"] = {"chart": "hello", "namespace": "others", "replicas": 3}
    return stated


def without_services() -> dict[str, Any]:
    """A cluster that runs nothing yet."""
    stated = lab()
    for key in ("services", "models", "objectives"):
        stated.pop(key, None)
    stated["concerns"].pop("model_store", None)
    return stated


def declared(stated: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """What the program declares for the site *stated* while all its nodes are there."""
    engine = Engine()
    inventory = tmp_path / "root/inventories/lab/site.yml"
    inventory.parent.mkdir(parents=True)
    inventory.write_text(json.dumps(stated))
    (tmp_path / "root/charts").symlink_to(REPOSITORY / "charts")
    cluster = planned(stated).cluster
    assert cluster is not None
    with api_server(engine, [node.name for node in cluster.nodes]) as url:
        update(kubeconfig(url), engine, monkeypatch, root=tmp_path / "root")
    return engine


def by_the_stack(engine: Engine) -> Objects:
    """The objects that the program declared, and those of its releases, as it is to find them in the cluster."""
    found = keyed(_plain(inputs) for kind, _, inputs in engine.made if kind.startswith("kubernetes:"))
    for wish in engine.of(RELEASE).values():
        chart = REPOSITORY / str(wish["chart"])
        found |= Rendering(wish["name"], wish["namespace"], chart, wish["values"]).objects()
    return found


def _plain(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """*inputs* as JSON, without what is said to the plugin."""
    found: dict[str, Any] = json.loads(json.dumps(inputs))
    annotations = found["metadata"].pop("annotations")
    kept = {key: value for key, value in annotations.items() if not key.startswith(FOR_THE_PLUGIN)}
    if kept:
        found["metadata"]["annotations"] = kept
    return found


@pytest.mark.parametrize("stated", [lab, without_services])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tree_and_the_stack_make_the_same(
    stated: Any, tool: ClusterOwner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = declared(stated(), tmp_path, monkeypatch)
    plan = planned(stated())
    rendered(plan, tool, tmp_path)
    of_tree = built(tmp_path, tool).everything()
    of_stack = by_the_stack(engine)
    left = {name for item in tree(plan, tool, defaultdict(dict)).left for name in item.objects}
    members = {key for key in of_stack if key[1:] == ("ConfigMap", MEMBERS_NAMESPACE, MEMBERS)}
    assert {f"Node {name}" for name in engine.of(NODE)} | {f"{key[1]} {key[2]}/{key[3]}" for key in members} == left
    assert of_tree == {key: item for key, item in of_stack.items() if key not in members}
    assert len({key[2] for key in of_tree}) > 2 or "services" not in stated()


@pytest.mark.parametrize("tool", TOOLS)
def test_no_secret_is_in_a_tree_nor_comes_of_it(tool: ClusterOwner, tmp_path: Path) -> None:
    stated = lab()
    stated["kubernetes"]["repository"] = {**stated["kubernetes"]["repository"], "credentials": "racks"}
    rendered(planned(stated), tool, tmp_path)
    made = built(tmp_path, tool)
    assert {key[1] for key in made.everything()}.isdisjoint({"Secret"})
    named = [item["spec"]["secretRef"] for item in made.own if "secretRef" in item["spec"]]
    assert named == ([{"name": "racks"}] if tool is ClusterOwner.FLUX else [])


def test_argo_cds_project_lets_through_what_the_tree_makes(tmp_path: Path) -> None:
    rendered(planned(lab()), ClusterOwner.ARGOCD, tmp_path)
    made = built(tmp_path, ClusterOwner.ARGOCD)
    (project,) = (item["spec"] for item in made.own if item["kind"] == "AppProject")
    allowed = {(rule["group"], rule["kind"]) for rule in project["clusterResourceWhitelist"]}
    places = {place["namespace"] for place in project["destinations"]}
    for version, kind, namespace, _ in made.everything():
        group = version.rpartition("/")[0]
        assert (namespace in places) if namespace else (group, kind) in allowed
    for application in (item["spec"] for item in made.own if item["kind"] == "Application"):
        assert application["source"]["repoURL"] in project["sourceRepos"]
        assert application["destination"]["namespace"] in places
