"""The whole stack of a site whose Pis join by themselves: the real engine and program, a real API server, NetBox and switch in memory.

`pulumi up` comes before the hosts are converged, and goes well while no node is there; the next one gives those that came what is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.netbox_server import TOKEN, serving
from engine.stack import missing_tool

from cluster.project import PI, SERVER, Project
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,  # the program on an engine in memory, in every run: tests/infra/test_nodes.py
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]

NODE, NAMESPACE, CONFIG_MAP = kind_of("Node"), kind_of("Namespace"), kind_of("ConfigMap")


@pytest.fixture
def project(tmp_path: Path, cluster: StandaloneCluster, api: ClusterClient) -> Iterator[Project]:
    """A configured stack that has never been up; what it makes in the cluster is taken away."""
    with serving() as netbox:
        settings = {
            "netbox:url": netbox.url,
            "netbox:token": TOKEN,
            "kubernetes:kubeconfig": cluster.kubeconfig.read_text(),
        }
        yield Project(tmp_path, settings)
    made = ((NODE, None, PI), (NAMESPACE, None, "edge-services"), (CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS))
    for kind, namespace, name in made:
        if (held := api.get(kind, namespace, name)) is not None:
            api.delete(kind, namespace, name, uid=held["metadata"]["uid"])


def test_it_is_up_the_first_time_and_nodes_that_come_get_their_labels(project: Project, api: ClusterClient) -> None:
    first = project.up()
    assert first["awaited"] == [SERVER, PI]
    assert not any(PI in touched and "cluster:Node" in touched for touched in first["touched"])
    assert api.get(NAMESPACE, None, "edge-services") is not None, "what needs no node is there"
    api.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PI}}, manager="kubelet")
    second = project.up()
    assert second["awaited"] == [SERVER]
    assert second["touched"] == [f"create {PI} (pinion:cluster:Node)"]
    held = api.get(NODE, None, PI)
    assert held is not None
    assert held["metadata"]["labels"].items() >= {"edge": "pi", "arch": "arm64"}.items()
    members = api.get(CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS)
    assert members is not None
    assert members["data"].keys() == {PI, SERVER, "mgmt-1"}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MEMBERS, "namespace": MEMBERS_NAMESPACE}}
    entered = {**head, "data": {"their-node": "of another team"}}
    api.apply(CONFIG_MAP, entered, manager="somebody")
    project.decommission(PI)
    assert f"update {MEMBERS} (kubernetes:core/v1:ConfigMap)" in project.up()["touched"]
    members = api.get(CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS)
    assert members is not None
    assert members["data"].keys() == {SERVER, "mgmt-1", "their-node"}
    kept = [path for path in (project.root / "state").rglob("*") if path.is_file()]
    assert kept
    assert not any(b"current-context" in path.read_bytes() for path in kept), "a kubeconfig's text is kept encrypted"
