"""The cluster driver against a real API server: what it answers, how it refuses, what it tries again."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cluster.by_hand import change_by_hand
from pinion.drivers.cluster import (
    ClusterClient,
    ClusterConflictError,
    ClusterDeniedError,
    ClusterReader,
    ClusterRefusedError,
    ClusterUnreachableError,
    Json,
    KubeconfigError,
    kind_of,
)
from pinion.lab.cluster.standalone import StandaloneCluster

CONFIG = kind_of("ConfigMap")


def config_map(namespace: str, name: str, **data: str) -> dict[str, object]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def test_apply_get_delete(api: ClusterClient, namespace: str) -> None:
    made = api.apply(CONFIG, config_map(namespace, "one", a="1"), manager="t")
    assert api.get(CONFIG, namespace, "one")["data"] == {"a": "1"}  # type: ignore[index]
    assert api.apply(CONFIG, config_map(namespace, "one", b="2"), manager="t")["data"] == {"b": "2"}
    assert not api.delete(CONFIG, namespace, "one", uid="another")
    assert api.delete(CONFIG, namespace, "one", uid=made["metadata"]["uid"])
    for _ in range(200):  # the garbage collector looks for dependents first
        if api.get(CONFIG, namespace, "one") is None:
            break
        time.sleep(0.1)
    assert not api.delete(CONFIG, namespace, "one", uid=made["metadata"]["uid"])


def test_dry_run_changes_nothing(api: ClusterClient, namespace: str) -> None:
    assert api.apply(CONFIG, config_map(namespace, "one", a="1"), manager="t", dry_run=True)["data"] == {"a": "1"}
    assert api.get(CONFIG, namespace, "one") is None


def test_list_by_label(api: ClusterClient, namespace: str) -> None:
    for name in ("one", "two"):
        manifest = config_map(namespace, name)
        manifest["metadata"] = {**manifest["metadata"], "labels": {"n": name}}  # type: ignore[dict-item]
        api.apply(CONFIG, manifest, manager="t")
    assert [item["metadata"]["name"] for item in api.list(CONFIG, namespace, "n=two")] == ["two"]


def test_owner_of_a_field_is_named(api: ClusterClient, namespace: str) -> None:
    api.apply(CONFIG, config_map(namespace, "one", a="1"), manager="first")
    with pytest.raises(ClusterConflictError, match=r'conflict with "first".*\.data\.a'):
        api.apply(CONFIG, config_map(namespace, "one", a="2"), manager="second")
    assert api.apply(CONFIG, config_map(namespace, "one", a="2"), manager="second", force=True)["data"] == {"a": "2"}


def test_merge_needs_the_version_that_it_was_made_from(api: ClusterClient, namespace: str) -> None:
    made = api.apply(CONFIG, config_map(namespace, "one", a="1"), manager="t")
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"b": "2"}}
    assert api.merge(CONFIG, namespace, "one", patch, manager="t")["data"] == {"a": "1", "b": "2"}
    with pytest.raises(ClusterConflictError, match="modified"):
        api.merge(CONFIG, namespace, "one", patch, manager="t")


def test_a_change_by_hand_goes_on_where_a_controller_was_faster(
    api: ClusterClient, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, read, touched = kind_of("Node"), api.get, list[str]()

    def overtaken(*asked: Any) -> Json | None:
        """The node as it is, and a controller that writes to it right after the first two looks."""
        found = read(*asked)
        if len(touched) < 2:
            touched.append("touched")
            about = {"name": node, "annotations": {"example.com/seen": str(len(touched))}}
            api.apply(kind, {"apiVersion": "v1", "kind": "Node", "metadata": about}, manager="controller")
        return found

    monkeypatch.setattr(api, "get", overtaken)
    changed = change_by_hand(api, kind, None, node, {"metadata": {"labels": {"by": "hand"}}})
    assert changed["metadata"]["labels"]["by"] == "hand"
    assert changed["metadata"]["annotations"]["example.com/seen"] == "2"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"metadata": {"name": "Not_A_Label", "namespace": "default"}}, "RFC 1123"),
        ({"dtaa": {"a": "1"}}, "dtaa: field not declared"),
        ({"data": {"a": 1}}, "expected string"),
    ],
)
def test_what_the_server_will_not_have_is_said_at_once(
    api: ClusterClient, change: dict[str, object], reason: str
) -> None:
    waits: list[float] = []
    with pytest.raises(ClusterRefusedError, match=reason):
        api.on_behalf(waits.append, str).apply(CONFIG, config_map("default", "one") | change, manager="t")
    assert waits == []


def test_who_may_not_is_told_what(cluster: StandaloneCluster) -> None:
    client = ClusterClient.open(cluster.kubeconfig_of("nobody"))
    with pytest.raises(ClusterDeniedError, match=r'User "nobody" cannot list resource "nodes"'):
        client.list(kind_of("Node"), None)


def test_no_other_authority_is_trusted(cluster: StandaloneCluster) -> None:
    document = json.loads(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["certificate-authority"] = str(cluster.credentials.etcd.certificate)
    with pytest.raises(ClusterUnreachableError, match="does not vouch for this server"):
        ClusterClient.open(json.dumps(document)).get(CONFIG, "default", "one")


def test_kubeconfig_by_text_or_path(cluster: StandaloneCluster) -> None:
    for kubeconfig in (cluster.kubeconfig, str(cluster.kubeconfig), cluster.kubeconfig.read_text()):
        client = ClusterClient.open(kubeconfig)
        assert client.server == cluster.server
        assert client.get(kind_of("Namespace"), None, "default")
    for wrong in ("/nowhere", "a:\n- b\n", "- 1\n- 2\n", Path("/dev/null")):
        with pytest.raises(KubeconfigError, match="kubeconfig"):
            ClusterClient.open(wrong)
    with pytest.raises(KubeconfigError, match="other"):
        ClusterClient.open(cluster.kubeconfig, context="other")


def test_reader_of_checks(cluster: StandaloneCluster, api: ClusterClient, namespace: str) -> None:
    reader = ClusterReader(cluster.kubeconfig)
    assert reader.get("Namespace", namespace)["metadata"]["name"] == namespace  # type: ignore[index]
    assert reader.get("ServiceAccount", "nobody", namespace) is None
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": namespace},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "none"}},
    }
    api.apply(kind_of("Service"), service, manager="t")
    for _ in range(100):  # until the controller manager has seen that it has no endpoints
        if reader.http_status(namespace, "s", 80, "/") == 503:
            break
        time.sleep(0.1)
    assert reader.http_status(namespace, "s", 80, "/") == 503


# --- a server that misbehaves ----------------------------------------------------------------------------------------


class _Script(BaseHTTPRequestHandler):
    """Answers what the script says, one entry a request: a status, or ``drop``, ``cut`` or ``hang``."""

    script: list[object] = []  # noqa: RUF012 - set by each test's subclass
    headers_of: dict[int, dict[str, str]] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        """One entry of the script."""
        entry = self.script.pop(0)
        if entry == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if entry == "hang":
            time.sleep(3)
            return
        body = json.dumps({"metadata": {"name": "one"}, "message": "as scripted"}).encode()
        self.send_response(200 if entry == "cut" else int(str(entry)))
        for key, value in self.headers_of.get(int(str(entry)) if entry != "cut" else 0, {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:10] if entry == "cut" else body)
        if entry == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@contextmanager
def scripted(*script: object, headers: dict[int, dict[str, str]] | None = None) -> Iterator[ClusterClient]:
    """A client of a server that answers *script*."""
    handler = type("Handler", (_Script,), {"script": list(script), "headers_of": headers or {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
    }  # fmt: skip
    opened = ClusterClient.open(json.dumps(document))
    try:
        yield ClusterClient(opened._api, timeout=(1, 1))
    finally:
        opened.close()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("fault", [500, 502, 503, 504, 429, "drop", "cut", "hang"])
def test_tried_again_until_it_answers(fault: object) -> None:
    waits: list[float] = []
    told: list[str] = []
    with scripted(fault, fault, 200) as client:
        assert client.on_behalf(waits.append, told.append).get(CONFIG, "d", "one") is not None
    assert waits == [0.5, 1.0]
    assert all("/api/v1/namespaces/d/configmaps/one" in line for line in told)


def test_retry_after_is_obeyed_within_reason() -> None:
    waits: list[float] = []
    with scripted(429, 503, 200, headers={429: {"Retry-After": "3"}, 503: {"Retry-After": "9999"}}) as client:
        client.on_behalf(waits.append, str).get(CONFIG, "d", "one")
    assert waits == [3.0, 15.0]


def test_gives_up_after_five_tries_and_says_why() -> None:
    waits: list[float] = []
    with (
        scripted(*[500] * 9) as client,
        pytest.raises(
            ClusterUnreachableError,
            match=r"configmaps/one: GET got no good answer in 5 tries; the last: 500 as scripted",
        ),
    ):
        client.on_behalf(waits.append, str).get(CONFIG, "d", "one")
    assert waits == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("status", [400, 401, 403, 409, 410, 422])
def test_no_is_not_asked_twice(status: int) -> None:
    waits: list[float] = []
    with scripted(status, 200) as client, pytest.raises(Exception, match=f"{status} as scripted"):
        client.on_behalf(waits.append, str).get(CONFIG, "d", "one")
    assert waits == []
