"""`pinion:cluster:Release`: real helm, real API server, a chart of the test's own that needs no node."""

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
from pinion.checks.claims import checks
from pinion.checks.model import Finding, Outcome, ReleaseProbe
from pinion.checks.probers.cluster import cluster_prober
from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.plan import plan
from pinion.provider.plugin import Secret
from pinion.provider.plugin.values import decode
from pinion.site.find import site_file
from pinion.site.loader import load

RELEASE, CONFIG, DEPLOYMENT = "pinion:cluster:Release", kind_of("ConfigMap"), kind_of("Deployment")
SITE = "one-site"


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


def wished(provider: Client, chart: Path, namespace: str, **stated: object) -> dict[str, Any]:
    """Checked inputs of release ``one`` of site `SITE`."""
    own = {"site": SITE, "chart": str(chart), "name": "one", "namespace": namespace, "timeout": 30}
    news = {**own, "origin": "services.one", **stated}
    response = provider.check(RELEASE, "one", news)
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


def test_create_read_update_delete(provider: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    made_id, outputs = provider.create(RELEASE, "one", inputs)
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
    assert provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs) == (inputs, outputs)

    wanted = wished(provider, chart, namespace, values={"text": "second"})
    assert provider.diff(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted) == {
        "values.text": "UPDATE"
    }
    changed = provider.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=wanted)
    assert text_of(api, namespace) == "second"

    provider.delete(RELEASE, "one", made_id, old_inputs=wanted, olds=changed)
    assert text_of(api, namespace) is None
    assert provider.read(RELEASE, "one", made_id, inputs=wanted, olds=changed) is None
    provider.delete(RELEASE, "one", made_id, old_inputs=wanted, olds=changed)


def test_what_a_chart_holds_counts_and_where_it_lies_does_not(provider: Client, chart: Path, tmp_path: Path) -> None:
    inputs = wished(provider, chart, "default")
    shutil.copytree(chart, tmp_path / "elsewhere")
    moved = wished(provider, tmp_path / "elsewhere", "default")
    assert provider.diff(RELEASE, "one", "default/one", old_inputs=inputs, olds={}, news=moved) == {}
    with (chart / "templates" / "all.yaml").open("a") as template:
        template.write("# changed\n")
    changed = wished(provider, chart, "default")
    assert provider.diff(RELEASE, "one", "default/one", old_inputs=inputs, olds={}, news=changed) == {
        "digest": "UPDATE"
    }


def test_preview_renders_and_checks_values(provider: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    provider.create(RELEASE, "one", wished(provider, chart, namespace), preview=True)
    assert text_of(api, namespace) is None
    with pytest.raises(grpc.RpcError, match=r"(?s)Release .*/one \(chart chart\).*replicas"):
        provider.create(RELEASE, "one", wished(provider, chart, namespace, values={"replicas": 9}), preview=True)


def test_check_refuses_what_it_cannot_do(provider: Client, chart: Path) -> None:
    stated = {"site": SITE, "name": "one", "namespace": "default"}
    for more, reason in (
        ({"chart": "charts/nginx"}, "no chart"),
        ({"chart": str(chart), "postrender": "x"}, "no such property"),
        ({}, "missing"),
    ):
        response = provider.check(RELEASE, "one", stated | more)
        assert any(reason in failure.reason for failure in response.failures), reason


def test_a_chart_is_found_from_the_repository_and_its_state_names_no_checkout(
    provider: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chart: Path
) -> None:
    read = []
    for checkout in (tmp_path / "one", tmp_path / "another"):
        shutil.copytree(chart, checkout / "charts" / "trial")
        monkeypatch.setenv("PINION_ROOT", str(checkout))
        read.append(wished(provider, Path("charts/trial"), "default"))
    assert read[0] == read[1]
    assert str(tmp_path) not in str(read)


def test_changes_by_hand_are_seen_in_words_and_repaired(
    provider: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    for kind, change in ((CONFIG, {"data": {"text": "by hand"}}), (DEPLOYMENT, {"spec": {"replicas": 2}})):
        change_by_hand(api, kind, namespace, "one", change)
    read = provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["drift"] == [
        "ConfigMap one: data.text was changed",
        "Deployment one: spec.replicas is 2, the chart says 0",
    ]
    assert set(provider.diff(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)) == {"drift"}
    provider.update(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert text_of(api, namespace) == "first"
    assert api.get(DEPLOYMENT, namespace, "one")["spec"]["replicas"] == 0  # type: ignore[index]


def test_verify_names_what_was_scaled_by_hand(
    provider: Client, cluster: StandaloneCluster, api: ClusterClient, chart: Path, namespace: str
) -> None:
    provider.create(RELEASE, "one", wished(provider, chart, namespace))
    planned = plan(load(site_file("lab")))
    (check,) = [one for one in checks(planned) if isinstance(one.probe, ReleaseProbe) and one.probe.name == "hello"]

    def found(name: str) -> Finding:
        moved = check.model_copy(update={"probe": ReleaseProbe(namespace=namespace, name=name)})
        (finding,) = cluster_prober(cluster.kubeconfig)(planned, [moved])
        return finding

    assert found("one").outcome is Outcome.PROVED
    change_by_hand(api, DEPLOYMENT, namespace, "one", {"spec": {"replicas": 2}})
    assert found("one").outcome is Outcome.FAILED
    assert found("one").found == "Deployment one: spec.replicas is 2, the chart says 0"
    assert found("two").found == "absent"


def test_an_object_that_is_gone_comes_back(provider: Client, api: ClusterClient, chart: Path, namespace: str) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    found = api.get(CONFIG, namespace, "one")
    assert found is not None
    api.delete(CONFIG, namespace, "one", uid=found["metadata"]["uid"])
    for _ in range(100):
        if api.get(CONFIG, namespace, "one") is None:
            break
        time.sleep(0.1)
    read = provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["drift"] == ["ConfigMap one is gone"]
    provider.update(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert text_of(api, namespace) == "first"


def test_values_that_someone_changed_are_seen(provider: Client, chart: Path, namespace: str) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    other = wished(provider, chart, namespace, values={"text": "other", "replicas": 0})
    provider.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=other)
    read = provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    changes = provider.diff(RELEASE, "one", made_id, old_inputs=read[0], olds=read[1], news=inputs)
    assert changes == {"values.replicas": "DELETE", "values.text": "UPDATE"}


def test_secret_values_are_never_seen(provider: Client, chart: Path, namespace: str) -> None:
    seen: set[str] = set()

    def watch() -> None:
        for process in psutil.process_iter(["cmdline", "environ"]):
            with contextlib.suppress(psutil.Error):
                if "helm" in " ".join(process.info["cmdline"] or ()):
                    seen.add(f"{process.info['cmdline']} {process.info['environ']}")

    inputs = wished(provider, chart, namespace, values={"text": Secret("hunter2")})
    with _every(0.02, watch):
        made_id, outputs = provider.create(RELEASE, "one", inputs)
    assert seen
    assert not any("hunter2" in entry for entry in seen)
    assert outputs["values"] == {"text": Secret("hunter2")}
    read = provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs)
    assert read is not None
    assert read[0]["values"] == {"text": Secret("hunter2")}
    assert "hunter2" not in provider.engine.text()


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
    provider: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(provider, chart, namespace, values={"replicas": 1}, timeout=4)
    with pytest.raises(grpc.RpcError, match=r"(?s)Release .*/one.*helm upgrade.*pod one-"):
        provider.create(RELEASE, "one", inputs)
    assert records(api, namespace) == []  # helm took it away again


def test_a_release_that_nobody_waits_for_and_that_fails_stays_in_the_state_and_is_repaired(
    provider: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"}, wait=False)
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    template = chart / "templates" / "all.yaml"
    good = template.read_text()
    template.write_text(good.replace("replicas: {{ .Values.replicas }}", "replicas: -1"))
    broken = wished(provider, chart, namespace, values={"text": "second"}, wait=False)
    with pytest.raises(grpc.RpcError) as error:
        provider.update(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs, news=broken)
    partial = partial_of(error.value)
    assert partial is not None
    assert partial.inputs["drift"] == ["release is failed"]
    template.write_text(good)
    repaired = wished(provider, chart, namespace, values={"text": "second"}, wait=False)
    assert "drift" in provider.diff(
        RELEASE, "one", made_id, old_inputs=partial.inputs, olds=partial.outputs, news=repaired
    )
    after = provider.update(RELEASE, "one", made_id, old_inputs=partial.inputs, olds=partial.outputs, news=repaired)
    assert after["status"]["status"] == "deployed"  # type: ignore[index,call-overload]
    assert text_of(api, namespace) == "second"


# --- whose it is -----------------------------------------------------------------------------------------------------


def installed_by_hand(cluster: StandaloneCluster, chart: Path, namespace: str, *more: str) -> None:
    """``helm install``, as somebody else does."""
    helm = [str(cache_root() / "bin" / "helm"), "--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace]
    subprocess.run([*helm, "install", "one", str(chart), *more], check=True, capture_output=True)


def test_a_release_of_somebody_else_is_left_alone_unless_the_stack_says_so(
    provider: Client, cluster: StandaloneCluster, api: ClusterClient, chart: Path, namespace: str
) -> None:
    installed_by_hand(cluster, chart, namespace, "--set", "text=theirs")
    inputs = wished(provider, chart, namespace, values={"text": "ours"})
    for preview in (True, False):
        with pytest.raises(grpc.RpcError, match=r"exists already and is not of a site.*pinion:adopt"):
            provider.create(RELEASE, "one", inputs, preview=preview)
    assert text_of(api, namespace) == "theirs"
    provider.configure({"kubernetesKubeconfig": str(cluster.kubeconfig), "adopt": True})
    provider.create(RELEASE, "one", inputs)
    assert text_of(api, namespace) == "ours"
    assert "is taken over" in provider.engine.text("WARNING")


def test_a_release_of_this_site_that_the_state_lost_is_adopted_and_one_of_another_is_not(
    provider: Client, api: ClusterClient, chart: Path, namespace: str
) -> None:
    inputs = wished(provider, chart, namespace, values={"text": "first"})
    provider.create(RELEASE, "one", inputs)
    made = api.get(DEPLOYMENT, namespace, "one")
    _, outputs = provider.create(RELEASE, "one", wished(provider, chart, namespace, values={"text": "second"}))
    after = api.get(DEPLOYMENT, namespace, "one")
    assert made is not None
    assert after is not None
    assert (text_of(api, namespace), after["metadata"]["uid"]) == ("second", made["metadata"]["uid"])
    other = wished(provider, chart, namespace, site="another-site")
    with pytest.raises(grpc.RpcError, match=f"of site {SITE}"):
        provider.create(RELEASE, "one", other)
    provider.delete(RELEASE, "one", f"{namespace}/one", old_inputs=other, olds=outputs)
    assert text_of(api, namespace) == "second", "who lost it to another site does not take it away"


def test_one_that_somebody_uninstalled_is_deleted_without_a_refresh(
    provider: Client, cluster: StandaloneCluster, chart: Path, namespace: str
) -> None:
    inputs = wished(provider, chart, namespace)
    made_id, outputs = provider.create(RELEASE, "one", inputs)
    helm = [str(cache_root() / "bin" / "helm"), "--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace]
    subprocess.run([*helm, "uninstall", "one"], check=True, capture_output=True)
    provider.delete(RELEASE, "one", made_id, old_inputs=inputs, olds=outputs)
    assert provider.read(RELEASE, "one", made_id, inputs=inputs, olds=outputs) is None


# --- kill -9 ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(cluster: StandaloneCluster) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    """The provider as a process of its own."""
    environment = {
        **os.environ,
        "PATH": f"{cache_root() / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "pinion.provider.main"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert running.stdout is not None
    port = running.stdout.readline().strip()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = Client(provider_pb2_grpc.ResourceProviderStub(channel), RecordingEngine())
        client.configure({"kubernetesKubeconfig": str(cluster.kubeconfig)})
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


@pytest.mark.parametrize("seed", range(points(2, 20)))
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
            helm.wait(5)  # the kernel ends it with the provider
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
