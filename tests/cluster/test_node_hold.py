"""A node that is drained for a while, on a real API server: cordoned, marked as ours, let go; another's cordon is left alone."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from pinion.bringup.cluster_node import MARK, held, hold, let_go
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root

NODE = kind_of("Node")


@pytest.fixture(autouse=True)
def kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl on PATH."""
    if not (cache_root() / "bin" / "kubectl").exists():
        pytest.skip("kubectl is not in the cache: make tools")
    monkeypatch.setenv("PATH", f"{cache_root() / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def node(api: ClusterClient) -> Iterator[str]:
    """A node of the test's own, without a kubelet."""
    name = f"n-{secrets.token_hex(4)}"
    made = api.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, manager="tests")
    yield name
    api.delete(NODE, None, name, uid=made["metadata"]["uid"])


def test_held_and_let_go(cluster: StandaloneCluster, api: ClusterClient, node: str) -> None:
    config = cluster.kubeconfig
    assert node not in held(config)
    for _ in range(2):  # a second run after a killed one
        assert hold(config, node, "reboot") == "cordoned, 0 pods evicted"
        found = api.get(NODE, None, node)
        assert found is not None
        assert found["spec"]["unschedulable"] is True
        assert found["metadata"]["annotations"][MARK] == "reboot"
        assert node in held(config)
    let_go(config, node)
    found = api.get(NODE, None, node)
    assert found is not None
    assert not found["spec"].get("unschedulable", False)
    assert node not in held(config)


def test_what_somebody_else_cordoned_is_not_ours(cluster: StandaloneCluster, api: ClusterClient, node: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"unschedulable": True}}
    api.apply(NODE, body, manager="somebody")
    assert hold(cluster.kubeconfig, node, "reboot") == "cordoned, 0 pods evicted"
    assert node not in held(cluster.kubeconfig)


def test_a_node_that_is_not_there(cluster: StandaloneCluster) -> None:
    assert hold(cluster.kubeconfig, "no-such-node", "reboot") is None
