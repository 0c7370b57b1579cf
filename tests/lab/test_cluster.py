"""A real cluster in the lab: kubelets in a GPU server and two Pis, pods that reach each other across VLANs, policies that hold."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.cluster_rack import NODES, ClusterRack
from lab.small_rack import GPU, SITE, traces

from pinion.lab.state import cache_root

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent
CHART = HERE.parents[1] / "charts" / "hello"
KERNEL = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")


def kernel() -> list[str]:
    """Parameters of this machine's kernel that a kubelet wants to set."""
    return [(Path("/proc/sys") / name).read_text() for name in KERNEL]


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterRack]:
    """The rack, up, with its switch configured."""
    made = ClusterRack.make(tmp_path_factory.mktemp("cluster"), "t-k8s")
    cluster = ClusterRack(made.instance, made.folder)
    cluster.site.write_text(SITE + GPU)
    before = kernel()
    try:
        cluster.up()
        cluster.join()
        yield cluster
    finally:
        cluster.down("--purge")
    assert traces([cluster]) == []
    assert kernel() == before


def test_a_second_up_changes_nothing(rack: ClusterRack) -> None:
    assert rack.up()["changes"] == 0


def test_nodes_are_real_kubelets_and_bring_no_labels_of_ours(rack: ClusterRack) -> None:
    items = json.loads(rack.kubectl("get", "nodes", "-o", "json"))["items"]
    assert {item["status"]["nodeInfo"]["kubeletVersion"] for item in items} == {"v1.34.2"}
    assert not any({"edge", "gpu"} & item["metadata"]["labels"].keys() for item in items)
    assert len({item["spec"]["podCIDR"] for item in items}) == len(NODES)


def test_a_node_may_not_label_another(rack: ClusterRack) -> None:
    kubectl = (cache_root() / "bin" / "kubectl").read_bytes()
    rack.machine("pi-01").write("/usr/local/bin/kubectl", kubectl, 0o755)
    refused = rack.machine("pi-01").run(
        ["kubectl", "--kubeconfig", "/etc/kubernetes/kubelet.kubeconfig", "label", "node", "nv-1", "gpu=mine"],
        check=False,
    )
    assert refused.returncode != 0
    assert "forbidden" in refused.stderr.lower()


@pytest.mark.parametrize(
    ("verb", "what", "allowed"),
    [
        ("patch", "nodes", "yes"),
        ("create", "namespaces", "yes"),
        ("create", "deployments.apps", "yes"),
        ("get", "services --subresource=proxy", "yes"),
        ("create", "clusterrolebindings", "no"),
        ("delete", "nodes", "no"),
        ("create", "pods --subresource=exec", "no"),
        ("impersonate", "users", "no"),
    ],
)
def test_the_deployer_may_deploy_and_no_more(rack: ClusterRack, verb: str, what: str, allowed: str) -> None:
    assert rack.kubectl("auth", "can-i", verb, *what.split(), "-A", who="kubeconfig", expect=None).split()[0] == allowed


def test_strangers_may_ask_for_health_only(rack: ClusterRack) -> None:
    server = json.loads(rack.store.endpoints.read_text())["kubernetes"]["server"]
    ca = str(rack.store.root / "pki" / "kubernetes" / "ca.crt")
    assert rack.inside("curl", "-s", "--cacert", ca, f"{server}/readyz") == "ok"
    status = rack.inside(
        "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", ca, f"{server}/api/v1/nodes"
    )
    assert status == "401"


def test_the_chart_runs_where_it_is_told_and_answers(rack: ClusterRack) -> None:
    rack.kubectl("create", "namespace", "edge")
    rack.kubectl("taint", "node", "nv-1", "special=true:NoSchedule")
    rack.kubectl("label", "node", "nv-1", "gpu=nvlink")
    apply(rack, policy("edge", "deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
    values = rack.folder / "values.json"
    toleration = {"key": "special", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    values.write_text(json.dumps({"nodeSelector": {"gpu": "nvlink"}, "tolerations": [toleration]}))
    helm = (str(cache_root() / "bin" / "helm"), "--kubeconfig", rack.kubeconfig("kubeconfig"), "--namespace", "edge")
    rack.inside(
        *helm, "upgrade", "--install", "hello", str(CHART), "--values", str(values), "--wait", "--timeout", "120s"
    )
    pods = json.loads(rack.kubectl("-n", "edge", "get", "pods", "-o", "json"))["items"]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["nv-1"]
    proxy = "/api/v1/namespaces/edge/services/hello:8080/proxy"
    assert rack.kubectl("get", "--raw", f"{proxy}/healthz", who="kubeconfig") == "ok\n"
    assert "Hello" in rack.kubectl("get", "--raw", f"{proxy}/", who="kubeconfig")
    assert "Succeeded" in rack.inside(*helm, "test", "hello", "--timeout", "120s")


def policy(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A NetworkPolicy."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def pod(name: str, node: str) -> dict[str, Any]:
    """A pod that answers HTTP on 8080, on *node*."""
    container = {"name": "c", "image": "pinion.invalid/hello:1.0.0"}
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
    }
    metadata = {"name": name, "namespace": "net", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def apply(rack: ClusterRack, *manifests: dict[str, Any]) -> None:
    """Apply manifests as the administrator."""
    path = rack.folder / "manifests.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    rack.kubectl("apply", "-f", str(path))


def reaches(rack: ClusterRack, source: str, target: str) -> bool:
    """Whether pod *source* gets an answer from *target* (address and port)."""
    ask = ("exec", source, "--", "/bin/busybox", "wget", "-q", "-T", "2", "-O", "-", f"http://{target}/healthz")
    return rack.kubectl("-n", "net", *ask, expect=None).startswith("ok")


def come_to_be(
    rack: ClusterRack, ways: dict[str, tuple[str, str]], wanted: dict[str, bool], seconds: float = 30
) -> None:
    """Within *seconds* exactly those of *ways* are open that *wanted* says: policies are followed by watching, not at once."""
    deadline = time.monotonic() + seconds
    while (found := {name: reaches(rack, *way) for name, way in ways.items()}) != wanted:
        assert time.monotonic() < deadline, found


def test_pods_reach_each_other_across_vlans_unless_a_policy_says_no(rack: ClusterRack) -> None:
    rack.kubectl("create", "namespace", "net")
    ports = [{"port": 80, "targetPort": 8080}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "b", "namespace": "net"},
        "spec": {"selector": {"app": "b"}, "ports": ports},
    }
    apply(rack, pod("a", "pi-01"), pod("b", "nv-1"), pod("c", "pi-01"), service)
    rack.kubectl("-n", "net", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
    items = json.loads(rack.kubectl("-n", "net", "get", "pods", "-o", "json"))["items"]
    at = {item["metadata"]["name"]: f"{item['status']['podIP']}:8080" for item in items}
    virtual = json.loads(rack.kubectl("-n", "net", "get", "service", "b", "-o", "json"))["spec"]["clusterIP"]
    ways = {
        "other VLAN": ("a", at["b"]),
        "back": ("b", at["a"]),
        "same node": ("a", at["c"]),
        "service": ("a", virtual),
    }
    come_to_be(rack, ways, dict.fromkeys(ways, True))
    for name in at:
        assert rack.kubectl("get", "--raw", f"/api/v1/namespaces/net/pods/{name}:8080/proxy/healthz") == "ok\n", name

    apply(rack, policy("net", "deny", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
    come_to_be(rack, ways, dict.fromkeys(ways, False))

    a, b = ({"podSelector": {"matchLabels": {"app": name}}} for name in "ab")
    to_b = {**b, "ingress": [{"from": [a], "ports": [{"port": 8080}]}]}
    from_a = {**a, "policyTypes": ["Egress"], "egress": [{"to": [b]}]}
    apply(rack, policy("net", "to-b", to_b), policy("net", "from-a", from_a))
    come_to_be(rack, ways, {"other VLAN": True, "back": False, "same node": False, "service": True})


def test_after_a_power_cut_of_nodes_and_control_plane_everything_comes_back(rack: ClusterRack) -> None:
    for name in ("nv-1", "mgmt-1"):
        os.kill(rack.pids()[name], signal.SIGKILL)
    rack.up()
    rack.await_nodes()
    proxy = "/api/v1/namespaces/edge/services/hello:8080/proxy/healthz"
    deadline = time.monotonic() + 90
    while rack.kubectl("get", "--raw", proxy, expect=None) != "ok\n":
        assert time.monotonic() < deadline, rack.kubectl("-n", "edge", "get", "pods", "-o", "wide")
        time.sleep(1)
