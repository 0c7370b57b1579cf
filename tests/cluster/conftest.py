"""An API server of our own on loopback, once for all tests of this folder; each test has a namespace of its own."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles.plugin_engine import Client, started

from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster, standalone
from pinion.lab.kubernetes_plugin.plugin import KubernetesPlugin
from pinion.lab.state import cache_root

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "helm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder starts an API server."""
    missing = [name for name in PROGRAMS if not (cache_root() / "bin" / name).exists()]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if missing:
                item.add_marker(
                    pytest.mark.skip(reason=f"{', '.join(missing)} not in {cache_root() / 'bin'}: make tools")
                )


@pytest.fixture(scope="package")
def cluster() -> Iterator[StandaloneCluster]:
    """etcd, API server and controller manager; no nodes."""
    with (
        tempfile.TemporaryDirectory(prefix="pinion-cluster-") as folder,
        standalone(Path(folder), cache_root() / "bin") as running,
    ):
        yield running


@pytest.fixture(scope="package")
def api(cluster: StandaloneCluster) -> Iterator[ClusterClient]:
    """The administrator's client."""
    client = ClusterClient.open(cluster.kubeconfig)
    yield client
    client.close()


@pytest.fixture
def namespace(api: ClusterClient) -> Iterator[str]:
    """A namespace of the test's own."""
    kind = kind_of("Namespace")
    name = f"t-{secrets.token_hex(4)}"
    made = api.apply(kind, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager="tests")
    yield name
    api.delete(kind, None, name, uid=made["metadata"]["uid"])


@pytest.fixture
def node(api: ClusterClient) -> Iterator[str]:
    """A node without a kubelet."""
    kind = kind_of("Node")
    name = f"n-{secrets.token_hex(4)}"
    made = api.apply(kind, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, manager="tests")
    yield name
    api.delete(kind, None, name, uid=made["metadata"]["uid"])


@pytest.fixture
def plugin(cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The stand-in, configured for the cluster, over a real channel."""
    monkeypatch.setenv("PATH", f"{cache_root() / 'bin'}:/usr/local/bin:/usr/bin:/bin")
    with started(KubernetesPlugin()) as client:
        client.configure({"kubeconfig": str(cluster.kubeconfig), "enableServerSideApply": "true"})
        yield client
