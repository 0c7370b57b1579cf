"""The Pulumi program of a cluster that Flux or Argo CD owns: what it declares, and that it refuses to have anything deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from gitops.built import site
from infra.test_nodes import (
    CONFIG_MAP,
    INFRA,
    KUBERNETES,
    NAMESPACE,
    NODE,
    RELEASE,
    Engine,
    api_server,
    kubeconfig,
    update,
)

from pinion.plan.cluster import MEMBERS
from pinion.plan.concerns import edge_cluster

URN = "urn:pulumi:lab::pinion::pinion:infra:GpuCluster$"


class EngineWithState(Engine):
    """An engine whose stack's state has *urns*."""

    def __init__(self, *urns: str) -> None:
        super().__init__()
        self._urns = urns

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        assert args.token == "pulumi:pulumi:readStackResourceOutputs"
        assert args.args == {"stackName": "lab"}
        return {"name": "lab", "outputs": {urn: {} for urn in self._urns}}


def run(engine: Engine, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: Iterable[str]) -> None:
    """Run the program for the lab whose site file says *owner*, with a list of who may be a node."""
    stated = site("lab", owner=owner)
    stated["concerns"][edge_cluster.NAME] = {}
    inventory = tmp_path / "inventories/lab/site.yml"
    inventory.parent.mkdir(parents=True)
    inventory.write_text(yaml.safe_dump(stated))
    (tmp_path / "charts").symlink_to(INFRA.parent / "charts")
    with api_server(engine, list(nodes)) as url:
        update(kubeconfig(url), engine, monkeypatch, root=tmp_path)


@pytest.mark.parametrize("owner", ["flux", "argocd"])
def test_only_nodes_and_the_list_of_members_are_declared(
    owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{URN}kubernetes:core/v1:ConfigMap::{MEMBERS}", f"{URN}pinion:cluster:Node::nv-1"
    engine = EngineWithState(*own, "urn:pulumi:lab::pinion::pinion:switch:Config::tor-1")
    run(engine, owner, tmp_path, monkeypatch, ["nv-1", "pi-01"])
    assert engine.of(NODE).keys() == {"nv-1", "pi-01"}
    assert engine.of(CONFIG_MAP).keys() == {MEMBERS}
    assert not engine.of(NAMESPACE)
    assert not engine.of(RELEASE)
    assert {kind for kind, _, _ in engine.made if kind.startswith("kubernetes:")} == {CONFIG_MAP}


@pytest.mark.parametrize(
    "kind", ["kubernetes:core/v1:Namespace", "kubernetes:networking.k8s.io/v1:NetworkPolicy", "pinion:cluster:Release"]
)
def test_a_state_with_what_another_owns_is_refused_before_anything_is_declared(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = EngineWithState(f"{URN}{kind}::theirs")
    with pytest.raises(pulumi.RunError, match=r"flux owns the cluster.*theirs.*pinion stack hand-over lab"):
        run(engine, "flux", tmp_path, monkeypatch, ["nv-1"])
    assert not [kind for kind, _, _ in engine.made if kind != "pulumi:pulumi:Stack"]
    assert not engine.of(KUBERNETES)
