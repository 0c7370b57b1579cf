"""A state of the first release: nodes and releases as resources of the Kubernetes plugin, objects without `__inputs`."""

from __future__ import annotations

from typing import Any

from pinion.bringup.former_state import brought_up_to_date
from pinion.provider.cluster.node import NodeKind
from pinion.provider.cluster.release import ReleaseKind

STACK = "urn:pulumi:lab::pinion::"
PROVIDER = f"{STACK}pulumi:providers:pinion::pinion"
NAMESPACE, ACCOUNT = (
    f"{STACK}kubernetes:core/v1:Namespace::edge",
    f"{STACK}kubernetes:core/v1:ServiceAccount::edge-workload",
)
PATCH, RELEASE = f"{STACK}kubernetes:core/v1:NodePatch::nv-1", f"{STACK}kubernetes:helm.sh/v3:Release::hello"
TAINT = {"key": "special", "value": "true", "effect": "NoSchedule"}


def former() -> dict[str, Any]:
    """The deployment of a stack with one of each."""

    def made(urn: str, inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
        kind, kube = urn.split("::")[2], f"{STACK}pulumi:providers:kubernetes::cluster::2"
        return {
            "urn": urn,
            "type": kind,
            "id": "x",
            "provider": kube,
            "inputs": inputs,
            "outputs": dict(inputs),
            **more,
        }

    metadata = {"name": "edge-workload", "namespace": "edge"}
    node = {"metadata": {"name": "nv-1", "labels": {"gpu": "nvlink"}}, "spec": {"taints": [TAINT]}}
    release = {
        "name": "hello",
        "namespace": "edge",
        "chart": "/there/charts/hello",
        "values": {"replicas": 1},
        "atomic": True,
    }
    return {
        "resources": [
            {"urn": PROVIDER, "type": "pulumi:providers:pinion", "id": "1", "inputs": {}, "outputs": {}},
            made(NAMESPACE, {"metadata": {"name": "edge"}}),
            made(ACCOUNT, {"metadata": metadata}),
            made(PATCH, node),
            made(RELEASE, {**release, "checksum": "0", "timeout": 300}, dependencies=[NAMESPACE, PATCH]),
        ]
    }


def test_nodes_and_releases_change_hands_and_nothing_else_names_them_as_before() -> None:
    found = brought_up_to_date(former(), "lab")
    assert found is not None
    by_type = {one["type"]: one for one in found["resources"]}
    node, release = by_type["pinion:cluster:Node"], by_type["pinion:cluster:Release"]
    assert node["provider"] == release["provider"] == f"{PROVIDER}::1"
    assert release["dependencies"] == [NAMESPACE, node["urn"]]
    marks, wish = NodeKind.shape.value(node["inputs"]), ReleaseKind.shape.value(release["inputs"])
    assert (marks.name, marks.labels, marks.taints[0].key) == ("nv-1", {"gpu": "nvlink"}, "special")
    assert (wish.site, wish.id, wish.wait, wish.values) == ("lab", "edge/hello", True, {"replicas": 1})
    assert "NodePatch" not in str(found)
    assert "helm.sh" not in str(found)


def test_objects_keep_their_inputs_where_the_official_plugin_looks_for_them() -> None:
    found = brought_up_to_date(former(), "lab")
    assert found is not None
    (account,) = [one for one in found["resources"] if one["urn"] == ACCOUNT]
    assert account["outputs"]["__inputs"] == {"metadata": {"name": "edge-workload", "namespace": "edge"}}
    assert brought_up_to_date(found, "lab") is None, "once is enough"
