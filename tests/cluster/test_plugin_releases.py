"""Helm releases of the stand-in: real helm, real API server, a chart of the test's own that needs no node."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from doubles.plugin_engine import Client, RecordingEngine, partial_of
from pulumi.runtime.proto import provider_pb2_grpc
from thoroughness import points

from cluster.by_hand import change_by_hand
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.provider.plugin import Secret
from pinion.provider.plugin.values import decode

RELEASE, CONFIG, DEPLOYMENT = "kubernetes:helm.sh/v3:Release", kind_of("ConfigMap"), kind_of("Deployment")


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart with a ConfigMap and a Deployment of no pods."""
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: trial\nversion: 1.2.3\nappVersion: '4.5'\n")
    (folder / "values.yaml").write_text("text: none\nreplicas: 0\n")
    (folder / "values.schema.json").write_text(
        '{"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 3}}}'
    )
    (folder / "templates" / "all.yaml").write_text(
        textwrap.dedent("""\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ .Release.Name }}"}
        data: {text: "{{ .Values.text }}"}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "{{ .Release.Name }}"}
        spec:
          replicas: {{ .Values.replicas }}
          selector: {matchLabels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}}
          template:
            metadata: {labels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}}
            spec:
              containers:
                - {name: one, image: "pinion.invalid/none:1", resources: {requests: {cpu: 0.25, memory: 1Gi}}}
        """)
    )
    return folder


def wished(plugin: Client, chart: Path, namespace: str, **stated: object) -> dict[str, Any]:
    """Checked inputs of release ``one``, as pulumi_kubernetes sends them."""
    news = {
        "chart": str(chart),
        "name": "one",
        "namespace": namespace,
        "compat": "true",
        "atomic": True,
        "timeout": 30,
        **stated,
    }
    response = plugin.check(RELEASE, "one", news)
    assert not response.failures, response.failures
    return decode(response.inputs)


def text_of(api: ClusterClient, namespace: str) -> str | None:
    """What the release's ConfigMap says."""
    found = api.get(CONFIG, namespace, "one")
    return found["data"]["text"] if found is not None else None


def records(api: ClusterClient, namespace: str) -> list[tuple[str, str]]:
    """helm's own records of the release: version and status."""
    found = api.list(kind_of("Secret"), namespace, "owner=helm,name=one")
    return sorted((item["metadata"]["labels"]["version"], item["metadata"]["labels"]["status"]) for item in found)


def test_create_read_update_delete(plugin: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    inputs = wished(plugin, chart, namespace, values={"text": "first"})
    made_id, outputs = plugin.create(RELEASE, "one", inputs)
    assert made_id == f"{namespace}/one"
    status = outputs["status"]
    assert isinstance(status, Mapping)
    assert (status["status"], status["revision"], status["version"], status["appVersion"]) == (
        "deployed",
        1,
        "1.2.3",
        "4.5",
    )
    assert outputs["resourceNames"] == {
        "ConfigMap/v1": [f"{namespace}/one"],
        "Deployment/apps/v1": [f"{namespace}/one"],
    }
    assert text_of(api, namespace) == "first"
    assert plugin.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs) == (inputs, outputs)

    wanted = wished(plugin, chart, namespace, values={"text": "second"})
    assert plugin.diff(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted) == {
        "values.text": "UPDATE"
    }
    changed = plugin.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted)
    assert text_of(api, namespace) == "second"

    plugin.delete(RELEASE, "one", made_id, old_inputs=wanted, olds=changed)
    assert text_of(api, namespace) is None
    assert plugin.read(RELEASE, "one", made_id, inputs=wanted, olds=changed) is None
    plugin.delete(RELEASE, "one", made_id, old_inputs=wanted, olds=changed)


def test_what_a_chart_holds_counts_and_where_it_lies_does_not(plugin: Client, chart: Path, tmp_path: Path) -> None:
    inputs = wished(plugin, chart, "default")
    shutil.copytree(chart, tmp_path / "elsewhere")
    moved = wished(plugin, tmp_path / "elsewhere", "default")
    assert plugin.diff(RELEASE, "one", "default/one", old_inputs=inputs, olds={}, news=moved) == {}
    with (chart / "templates" / "all.yaml").open("a") as template:
        template.write("# changed\n")
    changed = wished(plugin, chart, "default")
    assert plugin.diff(RELEASE, "one", "default/one", old_inputs=inputs, olds={}, news=changed) == {
        "checksum": "UPDATE"
    }


def test_preview_renders_and_checks_values(plugin: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    plugin.create(RELEASE, "one", wished(plugin, chart, namespace), preview=True)
    assert text_of(api, namespace) is None
    with pytest.raises(grpc.RpcError, match=r"(?s)Release .*/one \(chart chart\).*replicas"):
        plugin.create(RELEASE, "one", wished(plugin, chart, namespace, values={"replicas": 9}), preview=True)


def test_check_refuses_what_it_cannot_do(plugin: Client, chart: Path) -> None:
    for stated, reason in (
        ({"chart": "nginx", "repositoryOpts": {"repo": "https://charts.invalid"}}, "no chart"),
        ({"chart": str(chart), "postrender": "x"}, "postrender"),
        ({}, "missing"),
    ):
        response = plugin.check(RELEASE, "one", stated)
        assert any(reason in failure.reason for failure in response.failures), reason


def test_changes_by_hand_are_seen_in_words_and_repaired(
    plugin: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(plugin, chart, namespace, values={"text": "first"})
    made_id, outputs = plugin.create(RELEASE, "one", inputs)
    for kind, change in ((CONFIG, {"data": {"text": "by hand"}}), (DEPLOYMENT, {"spec": {"replicas": 2}})):
        change_by_hand(api, kind, namespace, "one", change)
    read = plugin.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["drift"] == [
        "ConfigMap one: data.text was changed",
        "Deployment one: spec.replicas is 2, the chart says 0",
    ]
    assert set(plugin.diff(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)) == {"drift"}
    plugin.update(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert text_of(api, namespace) == "first"
    assert api.get(DEPLOYMENT, namespace, "one")["spec"]["replicas"] == 0  # type: ignore[index]


def test_an_object_that_is_gone_comes_back(plugin: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    inputs = wished(plugin, chart, namespace, values={"text": "first"})
    made_id, outputs = plugin.create(RELEASE, "one", inputs)
    found = api.get(CONFIG, namespace, "one")
    assert found is not None
    api.delete(CONFIG, namespace, "one", uid=found["metadata"]["uid"])
    for _ in range(100):
        if api.get(CONFIG, namespace, "one") is None:
            break
        time.sleep(0.1)
    read = plugin.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["drift"] == ["ConfigMap one is gone"]
    plugin.update(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert text_of(api, namespace) == "first"


def test_values_that_someone_changed_are_seen(plugin: Client, chart: Path, namespace: str) -> None:
    inputs = wished(plugin, chart, namespace, values={"text": "first"})
    made_id, outputs = plugin.create(RELEASE, "one", inputs)
    other = wished(plugin, chart, namespace, values={"text": "other", "replicas": 0})
    plugin.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=other)
    read = plugin.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    changes = plugin.diff(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert changes == {"values.replicas": "DELETE", "values.text": "UPDATE"}


def test_secret_values_are_never_seen(plugin: Client, chart: Path, namespace: str) -> None:
    seen: set[str] = set()

    def watch() -> None:
        for process in psutil.process_iter(["cmdline", "environ"]):
            with contextlib.suppress(psutil.Error):
                if "helm" in " ".join(process.info["cmdline"] or ()):
                    seen.add(f"{process.info['cmdline']} {process.info['environ']}")

    inputs = wished(plugin, chart, namespace, values={"text": Secret("hunter2")})
    with _every(0.02, watch):
        made_id, outputs = plugin.create(RELEASE, "one", inputs)
    assert seen
    assert not any("hunter2" in entry for entry in seen)
    assert outputs["values"] == {"text": Secret("hunter2")}
    read = plugin.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["values"] == {"text": Secret("hunter2")}
    assert "hunter2" not in plugin.engine.text()


@contextlib.contextmanager
def _every(seconds: float, action: Any) -> Iterator[None]:
    import threading

    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_failed_install_says_what_the_pods_wait_for(
    plugin: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(plugin, chart, namespace, values={"replicas": 1}, timeout=4)
    with pytest.raises(grpc.RpcError, match=r"(?s)Release .*/one.*helm upgrade.*pod one-"):
        plugin.create(RELEASE, "one", inputs)
    assert records(api, namespace) == []  # atomic: helm took it away again
    with pytest.raises(grpc.RpcError) as error:
        plugin.create(RELEASE, "one", {**inputs, "atomic": False})
    partial = partial_of(error.value)
    assert partial is not None
    assert partial.id == f"{namespace}/one"
    repaired = wished(plugin, chart, namespace, values={"replicas": 0})
    assert "drift" in plugin.diff(
        RELEASE, "one", partial.id, old_inputs=partial.inputs, olds=partial.outputs, news=repaired
    )
    outputs = plugin.update(RELEASE, "one", partial.id, old_inputs=partial.inputs, olds=partial.outputs, news=repaired)
    assert outputs["status"]["status"] == "deployed"  # type: ignore[index,call-overload]


# --- kill -9 ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(cluster: StandaloneCluster) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """The stand-in as a process of its own."""
    environment = {
        **os.environ,
        "PATH": f"{cache_root() / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "pinion.lab.kubernetes_plugin"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert running.stdout is not None
    port = running.stdout.readline().strip()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = Client(provider_pb2_grpc.ResourceProviderStub(channel), RecordingEngine())
        client.configure({"kubeconfig": str(cluster.kubeconfig)})
        try:
            yield client, running
        finally:
            running.kill()
            running.wait()
            running.stdout.close()


def _helms_of(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [child for child in psutil.Process(pid).children(recursive=True) if "helm" in child.name()]
    return []


@pytest.mark.parametrize("seed", range(points(2, 6)))
def test_killed_during_install_or_upgrade_then_run_again(
    cluster: StandaloneCluster, api: ClusterClient, chart: Path, namespace: str, seed: int
) -> None:
    choice = random.Random(seed)
    upgrade = bool(seed % 2)
    with process(cluster) as (client, running):
        first = wished(client, chart, namespace, values={"text": "first"})
        inputs = wished(client, chart, namespace, values={"text": "second"}) if upgrade else first
        if upgrade:
            client.create(RELEASE, "one", first)
        slow = {**inputs, "values": {**inputs["values"], "replicas": 1}}  # waits for a pod that never runs
        call = client.stub.Create.future(_request(client, slow))
        delay = choice.uniform(0.05, 2.0)
        time.sleep(delay)
        helms = _helms_of(running.pid)
        running.send_signal(signal.SIGKILL)
        running.wait()
        call.cancel()
        for helm in helms:
            helm.wait(5)  # the kernel ends it with the stand-in
    before = records(api, namespace)
    with process(cluster) as (client, _):
        made_id, outputs = client.create(RELEASE, "one", inputs)
        assert outputs["status"]["status"] == "deployed", (delay, before)  # type: ignore[index,call-overload]
        assert client.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs) == (inputs, outputs)
    assert text_of(api, namespace) == inputs["values"]["text"]
    assert [status for _, status in records(api, namespace)].count("deployed") == 1
    assert not {status for _, status in records(api, namespace)} & {"pending-install", "pending-upgrade"}
    names = {item["metadata"]["name"] for item in api.list(DEPLOYMENT, namespace)}
    assert names == {"one"}


def test_adoption_does_not_restart_what_the_killed_run_made(
    cluster: StandaloneCluster, api: ClusterClient, chart: Path, namespace: str
) -> None:
    with process(cluster) as (client, running):
        inputs = wished(client, chart, namespace, values={"text": "first"})
        call = client.stub.Create.future(_request(client, {**inputs, "values": {**inputs["values"], "replicas": 1}}))
        for _ in range(600):
            made = api.get(DEPLOYMENT, namespace, "one")
            if made is not None:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
        call.cancel()
    assert made is not None
    assert records(api, namespace) == [("1", "pending-install")]
    with process(cluster) as (client, _):
        client.create(RELEASE, "one", inputs)
    after = api.get(DEPLOYMENT, namespace, "one")
    assert after is not None
    assert after["metadata"]["uid"] == made["metadata"]["uid"]


def _request(client: Client, inputs: Mapping[str, Any]) -> Any:
    from pulumi.runtime.proto import provider_pb2

    from pinion.provider.plugin.values import encode

    return provider_pb2.CreateRequest(
        urn=client.urn(RELEASE, "one"), type=RELEASE, name="one", properties=encode(inputs)
    )
