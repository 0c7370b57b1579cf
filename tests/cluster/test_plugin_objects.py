"""The stand-in's whole objects, over a real channel against a real API server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
from doubles.plugin_engine import Client, started

from cluster.by_hand import change_by_hand
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.kubernetes_plugin.plugin import TOKENS, KubernetesPlugin
from pinion.provider.plugin import UNKNOWN, Secret
from pinion.provider.plugin.values import decode

CONFIG, SECRET = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Secret"
NAMESPACE, ACCOUNT = "kubernetes:core/v1:Namespace", "kubernetes:core/v1:ServiceAccount"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def checked(
    plugin: Client, token: str, name: str, news: Mapping[str, Any], olds: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Inputs as Check lets them through."""
    response = plugin.check(token, name, news, olds)
    assert not response.failures
    return decode(response.inputs)


def config_map(plugin: Client, namespace: str, **data: object) -> dict[str, Any]:
    """Checked inputs of ConfigMap ``one``."""
    return checked(plugin, CONFIG, "one", {"metadata": {"name": "one", "namespace": namespace}, "data": data})


def test_check_fills_in_what_is_not_stated(plugin: Client) -> None:
    made = checked(plugin, CONFIG, "one", {"metadata": {"name": "one", "labels": None}, "data": {"a": "1"}})
    assert made == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": "default"},
        "data": {"a": "1"},
    }


def test_check_names_what_has_no_name_and_keeps_that_name(plugin: Client) -> None:
    first = checked(plugin, CONFIG, "one", {"data": {}})
    assert first["metadata"]["name"].startswith("one-")
    again = checked(plugin, CONFIG, "one", {"data": {"b": "2"}}, first)
    assert again["metadata"]["name"] == first["metadata"]["name"]


def test_check_tells_all_that_is_wrong(plugin: Client) -> None:
    response = plugin.check(NAMESPACE, "n", {"kind": "Pod", "metadata": {"name": "n", "namespace": "x"}})
    told = "\n".join(failure.reason for failure in response.failures)
    assert "kind" in told
    assert "metadata.namespace" in told


def test_create_read_update_delete(plugin: Client, api: ClusterClient, namespace: str) -> None:
    inputs = config_map(plugin, namespace, a="1", b="2")
    made_id, outputs = plugin.create(CONFIG, "one", inputs)
    assert made_id == f"{namespace}/one"
    assert outputs["data"] == {"a": "1", "b": "2"}
    assert outputs["metadata"]["uid"]  # type: ignore[index,call-overload]
    assert plugin.read(CONFIG, "one", made_id, inputs=inputs, olds=outputs) == (inputs, outputs)

    wanted = config_map(plugin, namespace, a="9")
    assert plugin.diff(CONFIG, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted) == {
        "data.a": "UPDATE",
        "data.b": "DELETE",
    }
    changed = plugin.update(CONFIG, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted)
    assert changed["data"] == {"a": "9"}
    assert api.get(kind_of("ConfigMap"), namespace, "one")["data"] == {"a": "9"}  # type: ignore[index]

    plugin.delete(CONFIG, "one", made_id, old_inputs=wanted, olds=changed)
    assert plugin.read(CONFIG, "one", made_id, inputs=wanted, olds=changed) is None
    plugin.delete(CONFIG, "one", made_id, old_inputs=wanted, olds=changed)


def test_a_change_by_hand_is_seen_and_repaired(
    plugin: Client, api: ClusterClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = config_map(plugin, namespace, a="1", b="2", c="3")
    made_id, outputs = plugin.create(CONFIG, "one", inputs)
    by_hand = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": namespace},
        "data": {"a": "by hand"},
    }
    api.apply(kind_of("ConfigMap"), by_hand, manager="kubectl", force=True)
    change_by_hand(api, kind_of("ConfigMap"), namespace, "one", {"data": {"b": None, "z": "26"}})

    read = plugin.read(CONFIG, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    seen, now = read
    assert seen["data"] == {"a": "by hand", "c": "3"}  # z is not ours
    assert plugin.diff(CONFIG, "one", made_id, old_inputs=seen, olds=now, news=inputs) == {
        "data.a": "UPDATE",
        "data.b": "ADD",
    }

    with pytest.raises(grpc.RpcError, match=r'conflict with "kubectl".*[\s\S]*pulumi.com/patchForce'):
        plugin.update(CONFIG, "one", made_id, old_inputs=seen, olds=now, news=inputs)
    monkeypatch.setenv("PULUMI_K8S_ENABLE_PATCH_FORCE", "true")
    repaired = plugin.update(CONFIG, "one", made_id, old_inputs=seen, olds=now, news=inputs)
    assert repaired["data"] == {"a": "1", "b": "2", "c": "3", "z": "26"}


def test_force_by_annotation(plugin: Client, api: ClusterClient, namespace: str) -> None:
    other = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": namespace},
        "data": {"a": "theirs"},
    }
    api.apply(kind_of("ConfigMap"), other, manager="someone")
    inputs = config_map(plugin, namespace, a="ours")
    with pytest.raises(grpc.RpcError, match="someone"):
        plugin.create(CONFIG, "one", inputs)
    inputs["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
    assert plugin.create(CONFIG, "one", inputs)[1]["data"] == {"a": "ours"}
    assert "exists already" in plugin.engine.text("WARNING")


def test_again_after_a_kill_there_is_one_object_and_no_stray_owner(
    plugin: Client, api: ClusterClient, namespace: str
) -> None:
    """The engine was killed before it wrote down what Create had made: Create comes again."""
    inputs = config_map(plugin, namespace, a="1", b="2")
    first, _ = plugin.create(CONFIG, "one", inputs)
    second, outputs = plugin.create(CONFIG, "one", inputs)
    assert first == second
    assert plugin.engine.text("WARNING") == ""
    plugin.update(CONFIG, "one", second, old_inputs=inputs, olds=outputs, news=config_map(plugin, namespace, a="1"))
    assert api.get(kind_of("ConfigMap"), namespace, "one")["data"] == {"a": "1"}  # type: ignore[index]


def test_preview_asks_the_server_and_changes_nothing(plugin: Client, api: ClusterClient, namespace: str) -> None:
    inputs = config_map(plugin, namespace, a="1")
    _, outputs = plugin.create(CONFIG, "one", inputs, preview=True)
    assert outputs["data"] == {"a": "1"}
    assert outputs["metadata"]["uid"] is UNKNOWN  # type: ignore[index,call-overload]
    assert api.get(kind_of("ConfigMap"), namespace, "one") is None
    with pytest.raises(grpc.RpcError, match="dtaa: field not declared"):
        plugin.create(CONFIG, "one", {**inputs, "dtaa": {}}, preview=True)


def test_preview_in_a_namespace_that_the_same_update_makes(plugin: Client) -> None:
    inputs = config_map(plugin, "not-yet", a="1")
    assert plugin.create(CONFIG, "one", inputs, preview=True)[1]["data"] == {"a": "1"}


def test_preview_without_a_cluster_says_so(cluster: StandaloneCluster) -> None:
    text = cluster.kubeconfig.read_text().replace(cluster.server, "https://127.0.0.1:1")
    with started(KubernetesPlugin()) as plugin:
        plugin.configure({"kubeconfig": text})
        plugin.create(CONFIG, "one", config_map(plugin, "default", a="1"), preview=True)
        assert "not checked against the cluster" in plugin.engine.text("WARNING")


def test_preview_with_an_unknown_kubeconfig_or_unknown_inputs(plugin: Client, namespace: str) -> None:
    inputs = config_map(plugin, namespace, a=UNKNOWN)
    assert plugin.create(CONFIG, "one", inputs, preview=True)[1]["data"] == {"a": UNKNOWN}
    with started(KubernetesPlugin()) as other:
        other.configure({"kubeconfig": UNKNOWN})
        inputs = config_map(other, namespace, a="1")
        assert other.create(CONFIG, "one", inputs, preview=True)[1]["data"] == {"a": "1"}


def test_replaced_when_it_cannot_change(plugin: Client, namespace: str) -> None:
    old = {"metadata": {"name": "s", "namespace": namespace}, "type": "Opaque"}
    changes = plugin.diff(
        SECRET, "s", f"{namespace}/s", old_inputs=old, olds={}, news={**old, "type": "kubernetes.io/basic-auth"}
    )
    assert changes == {"type": "UPDATE_REPLACE"}
    moved = plugin.diff(
        CONFIG,
        "s",
        f"{namespace}/s",
        old_inputs=old,
        olds={},
        news={**old, "metadata": {"name": "s", "namespace": "other"}},
    )
    assert moved == {"metadata.namespace": "UPDATE_REPLACE"}


def test_secrets_stay_secret(plugin: Client, api: ClusterClient, namespace: str) -> None:
    stated = {"metadata": {"name": "s", "namespace": namespace}, "stringData": {"password": Secret("hunter2")}}
    inputs = checked(plugin, SECRET, "s", stated)
    made_id, outputs = plugin.create(SECRET, "s", inputs)
    assert isinstance(outputs["data"], Secret)
    assert outputs["data"].value == {"password": "aHVudGVyMg=="}
    read = plugin.read(SECRET, "s", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["stringData"] == {"password": Secret("hunter2")}

    change_by_hand(api, kind_of("Secret"), namespace, "s", {"data": {"password": "b3RoZXI="}})
    changed = plugin.read(SECRET, "s", made_id, inputs=inputs, olds=outputs)
    assert changed is not None
    assert plugin.diff(SECRET, "s", made_id, old_inputs=changed[0], olds={}, news=inputs) == {
        "stringData.password": "UPDATE"
    }


def test_import(plugin: Client, namespace: str) -> None:
    inputs = config_map(plugin, namespace, a="1")
    made_id, _ = plugin.create(CONFIG, "one", inputs)
    imported = plugin.read(CONFIG, "one", made_id)
    assert imported is not None
    assert plugin.diff(CONFIG, "one", made_id, old_inputs=imported[0], olds=imported[1], news=inputs) == {}


def test_deleting_waits_until_the_namespace_is_gone(plugin: Client, api: ClusterClient) -> None:
    name = f"gone-{time.time_ns()}"
    inputs = checked(plugin, NAMESPACE, "n", {"metadata": {"name": name}})
    made_id, outputs = plugin.create(NAMESPACE, "n", inputs)
    assert made_id == name
    plugin.delete(NAMESPACE, "n", made_id, old_inputs=inputs, olds=outputs)
    assert api.get(kind_of("Namespace"), None, name) is None


def test_another_object_of_the_name_is_left_alone(plugin: Client, api: ClusterClient, namespace: str) -> None:
    inputs = config_map(plugin, namespace, a="1")
    made_id, outputs = plugin.create(CONFIG, "one", inputs)
    outputs["metadata"] = {**outputs["metadata"], "uid": "11111111-0000-0000-0000-000000000000"}  # type: ignore[dict-item]
    plugin.delete(CONFIG, "one", made_id, old_inputs=inputs, olds=outputs)
    assert api.get(kind_of("ConfigMap"), namespace, "one") is not None
    assert "left alone" in plugin.engine.text("WARNING")


@pytest.mark.parametrize(
    ("token", "stated"),
    [
        (ACCOUNT, {"automountServiceAccountToken": False}),
        (POLICY, {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}),
        (POLICY, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"ports": [{"port": 80}]}]}}),
        (CONFIG, {"data": {"a": "1"}, "immutable": True}),
        (SECRET, {"stringData": {"a": "1"}}),
    ],
)
def test_what_was_just_made_has_not_drifted(plugin: Client, namespace: str, token: str, stated: dict[str, Any]) -> None:
    inputs = checked(plugin, token, "one", {"metadata": {"name": "one", "namespace": namespace}, **stated})
    made_id, outputs = plugin.create(token, "one", inputs)
    read = plugin.read(token, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert plugin.diff(token, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs) == {}
    assert read[1] == outputs


def test_other_kinds_and_settings_are_refused_by_name(plugin: Client) -> None:
    with pytest.raises(grpc.RpcError, match="stand-in for pulumi-kubernetes, which knows") as error:
        plugin.check("kubernetes:apps/v1:Deployment", "d", {})
    for token in TOKENS:
        assert token in str(error.value)
    response = plugin.check_config({"enableServerSideApply": "false", "helmReleaseSettings": "{}", "context": "c"})
    told = "\n".join(failure.reason for failure in response.failures)
    assert "enableServerSideApply" in told
    assert "helmReleaseSettings is not known" in told
    assert len(response.failures) == 2


def test_who_may_not_is_told(cluster: StandaloneCluster, namespace: str) -> None:
    with started(KubernetesPlugin()) as plugin:
        plugin.configure({"kubeconfig": str(cluster.kubeconfig_of("nobody"))})
        with pytest.raises(grpc.RpcError, match=rf"ConfigMap {namespace}/one: {cluster.server}.*cannot get resource"):
            plugin.create(CONFIG, "one", config_map(plugin, namespace, a="1"))
