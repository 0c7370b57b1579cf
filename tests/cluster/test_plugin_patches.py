"""NodePatch: our labels and taints on a node that others write to as well."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import pytest
from doubles.plugin_engine import Client

from cluster.by_hand import change_by_hand
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.provider.plugin.values import decode

PATCH, NODE = "kubernetes:core/v1:NodePatch", kind_of("Node")
SPECIAL = {"key": "special", "value": "true", "effect": "NoSchedule"}
#: Of a key that the node controller, which runs beside the test, has no opinion on.
OTHER = {"key": "example.com/in-maintenance", "effect": "NoSchedule"}


def wished(plugin: Client, node: str, labels: dict[str, str], *taints: dict[str, str]) -> dict[str, Any]:
    """Checked inputs of a patch."""
    stated: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    if taints:
        stated["spec"] = {"taints": list(taints)}
    response = plugin.check(PATCH, node, stated)
    assert not response.failures
    return decode(response.inputs)


def live(api: ClusterClient, node: str) -> tuple[dict[str, str], set[str]]:
    """Labels of the node, and keys of its taints."""
    found = api.get(NODE, None, node)
    assert found is not None
    return found["metadata"].get("labels", {}), {taint["key"] for taint in found["spec"].get("taints", ())}


def taint_by_hand(api: ClusterClient, node: str, *taints: dict[str, str]) -> None:
    """Replace the node's taints, as the node controller or kubectl does: that controller writes to the node at the same time."""
    change_by_hand(api, NODE, None, node, {"spec": {"taints": list(taints) or None}}, manager="controller")


def test_only_our_fields(plugin: Client, api: ClusterClient, node: str) -> None:
    api.apply(
        NODE,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"theirs": "1"}}},
        manager="kubelet",
    )
    inputs = wished(plugin, node, {"gpu": "nvlink", "kubernetes.io/nvlink": "true"}, SPECIAL)
    made_id, outputs = plugin.create(PATCH, node, inputs)
    assert made_id == node
    labels, taints = live(api, node)
    assert labels.items() >= {"theirs": "1", "gpu": "nvlink", "kubernetes.io/nvlink": "true"}.items()
    assert "special" in taints
    read = plugin.read(PATCH, node, made_id, inputs=inputs, olds=outputs)
    assert read == (inputs, outputs)

    plugin.delete(PATCH, node, made_id, old_inputs=inputs, olds=outputs)
    labels, taints = live(api, node)
    assert "gpu" not in labels
    assert "theirs" in labels
    assert "special" not in taints


def test_a_label_removed_by_hand_is_seen_and_put_back(plugin: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(plugin, node, {"edge": "pi", "arch": "arm64"})
    made_id, outputs = plugin.create(PATCH, node, inputs)
    change_by_hand(api, NODE, None, node, {"metadata": {"labels": {"edge": None}}}, manager="kubectl-label")

    read = plugin.read(PATCH, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert plugin.diff(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {
        "metadata.labels.edge": "ADD"
    }
    plugin.update(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert live(api, node)[0]["edge"] == "pi"


def test_a_label_that_is_no_longer_stated_goes(plugin: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(plugin, node, {"edge": "pi", "arch": "arm64"}, SPECIAL)
    made_id, outputs = plugin.create(PATCH, node, inputs)
    wanted = wished(plugin, node, {"arch": "arm64"})
    changes = plugin.diff(PATCH, node, made_id, old_inputs=inputs, olds=outputs, news=wanted)
    assert changes == {"metadata.labels.edge": "DELETE", "spec": "DELETE"}
    plugin.update(PATCH, node, made_id, old_inputs=inputs, olds=outputs, news=wanted)
    labels, taints = live(api, node)
    assert "edge" not in labels
    assert "special" not in taints


def test_taints_of_others_stay_and_are_no_drift(plugin: Client, api: ClusterClient, node: str) -> None:
    taint_by_hand(api, node, OTHER)
    inputs = wished(plugin, node, {}, SPECIAL)
    made_id, outputs = plugin.create(PATCH, node, inputs)
    assert live(api, node)[1] >= {"special", OTHER["key"]}
    read = plugin.read(PATCH, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert plugin.diff(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {}

    taint_by_hand(api, node, OTHER)
    read = plugin.read(PATCH, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert plugin.diff(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {"spec.taints[0]": "ADD"}
    plugin.update(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert live(api, node)[1] >= {"special", OTHER["key"]}


def test_a_changed_taint_is_told_as_such(plugin: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(plugin, node, {}, SPECIAL)
    made_id, outputs = plugin.create(PATCH, node, inputs)
    taint_by_hand(api, node, {**SPECIAL, "value": "false"})
    read = plugin.read(PATCH, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    changes = plugin.diff(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert changes == {"spec.taints[0].value": "UPDATE"}
    plugin.update(PATCH, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    found = api.get(NODE, None, node)
    assert found is not None
    assert [taint for taint in found["spec"]["taints"] if taint["key"] == "special"] == [SPECIAL]


def test_waits_for_the_node_to_join(plugin: Client, api: ClusterClient, node: str) -> None:
    name = f"{node}-late"
    joined: list[dict[str, Any]] = []

    def join() -> None:
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        joined.append(dict(api.apply(NODE, manifest, manager="kubelet")))

    timer = threading.Timer(2.0, join)
    timer.start()
    try:
        plugin.create(PATCH, name, wished(plugin, name, {"edge": "pi"}))
        timer.join()
        assert live(api, name)[0]["edge"] == "pi"
        assert "waits for the node to join" in plugin.engine.text()
    finally:
        timer.join()
        for made in joined:
            api.delete(NODE, None, name, uid=made["metadata"]["uid"])


def test_a_node_that_is_gone_took_its_fields_with_it(plugin: Client, node: str) -> None:
    inputs = wished(plugin, f"{node}-gone", {"edge": "pi"})
    assert plugin.read(PATCH, "x", f"{node}-gone", inputs=inputs, olds={}) is None
    plugin.delete(PATCH, "x", f"{node}-gone", old_inputs=inputs, olds={})


def test_bad_labels_are_an_error_of_the_preview(plugin: Client, node: str) -> None:
    with pytest.raises(grpc.RpcError, match=f"Node {node}: .*metadata.labels"):
        plugin.create(PATCH, node, wished(plugin, node, {"no spaces": "x"}), preview=True)
