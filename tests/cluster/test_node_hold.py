"""A node that is drained for a while, on a real API server: cordoned, marked as ours, let go; another's cordon is left alone."""

from __future__ import annotations

import os
import secrets
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from pinion.bringup.cluster_node import MARK, LossError, held, hold, let_go, losses
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root

PODS = ("bare", "owned", "scratch", "of-daemons", "ended")
NODE, NAMESPACE, POD = (kind_of(kind) for kind in ("Node", "Namespace", "Pod"))


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


@pytest.fixture
def pods(cluster: StandaloneCluster, api: ClusterClient, node: str) -> Iterator[str]:
    """The namespace of pods on the node: of nobody, of an owner, with scratch data, of a DaemonSet, and one that has ended."""
    space = f"hold-{secrets.token_hex(4)}"
    api.apply(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}, manager="tests")
    about = {"namespace": space}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", **about}}
    api.apply(kind_of("ServiceAccount"), account, manager="tests")
    containers, labels = [{"name": "c", "image": "none"}], {"app": "d"}
    stated = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        "updateStrategy": {"type": "OnDelete"},
    }
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "o", **about}, "spec": stated}
    made = api.apply(kind_of("DaemonSet"), body, manager="tests")
    # The garbage collector takes pods whose owner it knows to be gone; of a kind that nobody serves it cannot know.
    somebody = {
        "apiVersion": "tests.example/v1",
        "kind": "Gang",
        "name": "o",
        "uid": str(uuid.uuid4()),
        "controller": True,
    }
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "o",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    scratch = [{"name": "work", "emptyDir": {}}]
    for name, owners, volumes in (
        ("bare", [], []),
        ("owned", [somebody], []),
        ("scratch", [somebody], scratch),
        ("of-daemons", [daemons], scratch),
        ("ended", [], scratch),
    ):
        spec = {
            "nodeName": node,
            # nobody is there to end it
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": containers,
            "volumes": volumes,
        }
        mine = labels if owners == [daemons] else {}
        metadata = {"name": name, **about, "ownerReferences": owners, "labels": mine}
        api.apply(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, manager="tests")
    ended = ("patch", "pod", "ended", "-n", space, "--subresource=status", "-p", '{"status":{"phase":"Succeeded"}}')
    subprocess.run(["kubectl", "--kubeconfig", str(cluster.kubeconfig), *ended], check=True, capture_output=True)
    yield space
    for kind, name in ((kind_of("DaemonSet"), "o"), *((POD, name) for name in PODS)):
        if (left := api.get(kind, space, name)) is not None:
            api.delete(kind, space, name, uid=left["metadata"]["uid"])


def test_what_would_be_lost_is_named_and_nothing_is_touched_until_that_is_allowed(
    cluster: StandaloneCluster, api: ClusterClient, node: str, pods: str
) -> None:
    config, space = cluster.kubeconfig, pods
    lost = (
        f"pod {space}/bare: no controller starts it again",
        f"pod {space}/scratch: what is in its volumes work (emptyDir)",
    )
    assert losses(config, node) == lost
    with pytest.raises(LossError, match=f"{node} is not drained, for this would be lost: .*bare.*scratch"):
        hold(config, node, "reboot")
    found = api.get(NODE, None, node)
    assert found is not None
    assert not found["spec"].get("unschedulable", False)
    assert MARK not in found["metadata"].get("annotations", {})
    assert {name for name in ("bare", "owned", "scratch") if api.get(POD, space, name)} == {"bare", "owned", "scratch"}
    said = hold(config, node, "reboot", lose=True)
    assert said is not None
    assert said.startswith("cordoned, ")
    assert said.endswith("; ".join(f"lost: {each}" for each in lost))
    assert not [name for name in ("bare", "owned", "scratch") if api.get(POD, space, name)]
    assert api.get(POD, space, "of-daemons") is not None


def test_a_node_that_is_not_there(cluster: StandaloneCluster) -> None:
    assert hold(cluster.kubeconfig, "no-such-node", "reboot") is None
