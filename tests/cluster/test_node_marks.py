"""`pinion:cluster:Node`: our labels and taints on a node that others write to as well."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc
import pytest
from doubles.plugin_engine import Client

from cluster.by_hand import change_by_hand
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.provider.plugin.values import decode

MARKS, NODE = "pinion:cluster:Node", kind_of("Node")
SPECIAL = {"key": "special", "value": "true", "effect": "NoSchedule"}
#: Of a key that the node controller, which runs beside the test, has no opinion on.
OTHER = {"key": "example.com/in-maintenance", "effect": "NoSchedule"}


def wished(provider: Client, node: str, labels: dict[str, str], *taints: dict[str, str]) -> dict[str, Any]:
    """Checked inputs of a node's marks."""
    response = provider.check(
        MARKS, node, {"name": node, "labels": labels, "taints": list(taints), "origin": "pis.pi 1"}
    )
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


def test_only_our_fields(provider: Client, api: ClusterClient, node: str) -> None:
    api.apply(
        NODE,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"theirs": "1"}}},
        manager="kubelet",
    )
    inputs = wished(provider, node, {"gpu": "nvlink", "kubernetes.io/nvlink": "true"}, SPECIAL)
    made_id, outputs = provider.create(MARKS, node, inputs)
    assert made_id == node
    labels, taints = live(api, node)
    assert labels.items() >= {"theirs": "1", "gpu": "nvlink", "kubernetes.io/nvlink": "true"}.items()
    assert "special" in taints
    read = provider.read(MARKS, node, made_id, inputs=inputs, olds=outputs)
    assert read == (inputs, outputs)

    provider.delete(MARKS, node, made_id, old_inputs=inputs, olds=outputs)
    labels, taints = live(api, node)
    assert "gpu" not in labels
    assert "theirs" in labels
    assert "special" not in taints


def test_a_label_removed_by_hand_is_seen_and_put_back(provider: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(provider, node, {"edge": "pi", "arch": "arm64"})
    made_id, outputs = provider.create(MARKS, node, inputs)
    change_by_hand(api, NODE, None, node, {"metadata": {"labels": {"edge": None}}}, manager="kubectl-label")

    read = provider.read(MARKS, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert provider.diff(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {"labels.edge": "ADD"}
    provider.update(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert live(api, node)[0]["edge"] == "pi"


def test_a_label_that_is_no_longer_stated_goes(provider: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(provider, node, {"edge": "pi", "arch": "arm64"}, SPECIAL)
    made_id, outputs = provider.create(MARKS, node, inputs)
    wanted = wished(provider, node, {"arch": "arm64"})
    changes = provider.diff(MARKS, node, made_id, old_inputs=inputs, olds=outputs, news=wanted)
    assert changes == {"labels.edge": "DELETE", "taints": "DELETE"}
    provider.update(MARKS, node, made_id, old_inputs=inputs, olds=outputs, news=wanted)
    labels, taints = live(api, node)
    assert "edge" not in labels
    assert "special" not in taints


def test_taints_of_others_stay_and_are_no_drift(provider: Client, api: ClusterClient, node: str) -> None:
    taint_by_hand(api, node, OTHER)
    inputs = wished(provider, node, {}, SPECIAL)
    made_id, outputs = provider.create(MARKS, node, inputs)
    assert live(api, node)[1] >= {"special", OTHER["key"]}
    read = provider.read(MARKS, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert provider.diff(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {}

    taint_by_hand(api, node, OTHER)
    read = provider.read(MARKS, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert provider.diff(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs) == {"taints": "ADD"}
    provider.update(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert live(api, node)[1] >= {"special", OTHER["key"]}


def test_a_changed_taint_is_told_as_such(provider: Client, api: ClusterClient, node: str) -> None:
    inputs = wished(provider, node, {}, SPECIAL)
    made_id, outputs = provider.create(MARKS, node, inputs)
    taint_by_hand(api, node, {**SPECIAL, "value": "false"})
    read = provider.read(MARKS, node, made_id, inputs=inputs, olds=outputs)
    assert read is not None
    changes = provider.diff(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert changes == {"taints[0].value": "UPDATE"}
    provider.update(MARKS, node, made_id, old_inputs=read[0], olds=read[1], news=inputs)
    found = api.get(NODE, None, node)
    assert found is not None
    assert [taint for taint in found["spec"]["taints"] if taint["key"] == "special"] == [SPECIAL]


def test_waits_for_the_node_to_join(provider: Client, api: ClusterClient, node: str) -> None:
    name = f"{node}-late"
    joined: list[dict[str, Any]] = []

    def join() -> None:
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        joined.append(dict(api.apply(NODE, manifest, manager="kubelet")))

    timer = threading.Timer(2.0, join)
    timer.start()
    try:
        provider.create(MARKS, name, wished(provider, name, {"edge": "pi"}))
        timer.join()
        assert live(api, name)[0]["edge"] == "pi"
        assert "waits for the node to join" in provider.engine.text()
    finally:
        timer.join()
        for made in joined:
            api.delete(NODE, None, name, uid=made["metadata"]["uid"])


def test_a_node_that_is_gone_took_its_marks_with_it_and_does_not_come_back(
    provider: Client, api: ClusterClient, node: str
) -> None:
    inputs = wished(provider, f"{node}-gone", {"edge": "pi"})
    assert provider.read(MARKS, "x", f"{node}-gone", inputs=inputs, olds={}) is None
    provider.delete(MARKS, "x", f"{node}-gone", old_inputs=inputs, olds={})
    assert api.get(NODE, None, f"{node}-gone") is None


@pytest.mark.parametrize("act", ["update", "delete"])
def test_a_node_that_goes_while_it_is_marked_is_not_made_again(
    act: str, provider: Client, api: ClusterClient, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server-side apply makes what is not there; ours names the uid of the node that was read."""
    name = f"{node}-going"
    made = api.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, manager="kubelet")
    inputs = wished(provider, name, {"edge": "pi"})
    _, outputs = provider.create(MARKS, name, inputs)
    apply = ClusterClient.apply

    def too_late(client: ClusterClient, *arguments: Any, **options: Any) -> Any:
        api.delete(NODE, None, name, uid=made["metadata"]["uid"])
        while api.get(NODE, None, name) is not None:
            time.sleep(0.1)
        return apply(client, *arguments, **options)

    monkeypatch.setattr(ClusterClient, "apply", too_late)
    if act == "delete":
        provider.delete(MARKS, name, name, old_inputs=inputs, olds=outputs)
    else:
        with pytest.raises(grpc.RpcError, match=f"Node {name}"):
            provider.update(
                MARKS, name, name, old_inputs=inputs, olds=outputs, news=wished(provider, name, {"edge": "x"})
            )
    assert api.get(NODE, None, name) is None


def test_bad_labels_are_an_error_of_the_preview(provider: Client, node: str) -> None:
    with pytest.raises(grpc.RpcError, match=f"Node {node}: .*metadata.labels"):
        provider.create(MARKS, node, wished(provider, node, {"no spaces": "x"}), preview=True)
