"""A release whose pods do not get ready: which pod, why, its last log lines, what to change; and the release before goes on serving.

Real helm, API server and controllers. What a kubelet would say of a pod, and the logs that it would hand out, are the test's.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from doubles.plugin_engine import Client

from cluster.test_releases import DEPLOYMENT, RELEASE, chart, records, text_of, wished
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster

__all__ = ["chart"]

POD, NODE = kind_of("Pod"), kind_of("Node")
LOG = "reads /etc/hello.toml\npanic: no such key: prot\n"


@contextmanager
def _kubelet(cluster: StandaloneCluster) -> Iterator[int]:
    """The port of an HTTPS server that hands out `LOG` for every container, as a kubelet does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_log = self.path.startswith("/containerLogs/")
            self.send_response(200 if is_log else 404)
            self.end_headers()
            self.wfile.write(LOG.encode() if is_log else b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    serving = cluster.credentials.api_server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(serving.certificate, serving.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def saying(
    api: ClusterClient, namespace: str, node: str, state: dict[str, Any], last: dict[str, Any]
) -> Iterator[None]:
    """Every pod of the namespace is placed on *node*, where its container is in *state* and, where it started before, was in *last*."""
    stop = threading.Event()

    def play() -> None:
        while not stop.wait(0.3):
            for pod in api.list(POD, namespace):
                if not pod["spec"].get("nodeName"):
                    place(pod["metadata"]["name"])

    def place(name: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        api._call("POST", f"{POD.path(namespace, name)}/binding", body=binding)
        container = {
            "name": "one",
            "image": "i",
            "imageID": "",
            "ready": False,
            "restartCount": 3 if last else 0,
            "state": state,
            "lastState": last,
        }
        status = {
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
            "containerStatuses": [container],
        }
        api._call(
            "PATCH",
            f"{POD.path(namespace, name)}/status",
            body={"status": status},
            content="application/merge-patch+json",
        )

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


PULL = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "pinion.invalid/none:1"'}}
CRASH = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
DIED = {"terminated": {"exitCode": 1, "reason": "Error"}}
LEFT = {"terminated": {**DIED["terminated"], "message": "fetches it\nthe model is REFUSED: HTTP 404\n"}}


@pytest.mark.parametrize(
    ("state", "last", "expected"),
    [
        (PULL, {}, ["ImagePullBackOff", "to change: the image pinion.invalid/none:1", "services.one"]),
        (CRASH, DIED, ["CrashLoopBackOff", "  | panic: no such key: prot", "to change: what its log complains of"]),
        (
            CRASH,
            LEFT,
            ["CrashLoopBackOff", "  | fetches it\n  | the model is REFUSED: HTTP 404", "to change: what its log"],
        ),
    ],
)
def test_a_failed_upgrade_names_pod_reason_and_remedy_and_the_former_release_serves(
    state: dict[str, Any],
    last: dict[str, Any],
    expected: list[str],
    provider: Client,
    cluster: StandaloneCluster,
    api: ClusterClient,
    chart: Path,
    namespace: str,
    node: str,
) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    broken = wished(provider, chart, namespace, values={"text": "second", "replicas": 1}, timeout=8)
    with _kubelet(cluster) as port:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        api._call(
            "PATCH", f"{NODE.path(None, node)}/status", body={"status": status}, content="application/merge-patch+json"
        )
        with saying(api, namespace, node, state, last), pytest.raises(grpc.RpcError) as error:
            provider.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=broken)
    told = str(error.value.details())
    for words in (f"Release {namespace}/one", "pod one-", "container one", *expected, "Rolled back: revision 3"):
        assert words in told, told
    assert text_of(api, namespace) == "first"
    held = api.get(DEPLOYMENT, namespace, "one")
    assert held is not None
    assert held["spec"]["replicas"] == 0
    assert records(api, namespace)[-1] == ("3", "deployed")


def test_pods_that_nobody_lets_be_made_are_named_with_the_reason(
    provider: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    api._call("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body=quota)
    labelled = chart / "templates" / "all.yaml"
    text = labelled.read_text()
    labelled.write_text(
        text.replace(
            'kind: Deployment\nmetadata: {name: "{{ .Release.Name }}"}',
            'kind: Deployment\nmetadata: {name: "{{ .Release.Name }}", labels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}}',
        )
    )
    wanted = wished(provider, chart, namespace, values={"replicas": 1}, timeout=8)
    with pytest.raises(grpc.RpcError, match=r"(?s)Deployment one: no pod is made: .*exceeded quota"):
        provider.create(RELEASE, "one", wanted)
