"""The stand-in behind the fault proxy, in front of a real API server: bounded retries, clear errors, and the next run goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from doubles.faults import PASSING_FAULTS, Fault, FaultProxy, Request, Seeded, too_many
from doubles.plugin_engine import Client, started

from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.kubernetes_plugin.plugin import KubernetesPlugin
from pinion.lab.state import cache_root
from pinion.provider.plugin.values import decode

CONFIG, ACCOUNT = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:ServiceAccount"
RELEASE = "kubernetes:helm.sh/v3:Release"


def kubeconfig(url: str, ca: bytes = b"") -> str:
    """The text of a kubeconfig for the proxy, which shows the administrator's certificate for whoever comes."""
    cluster = {"server": url, **({"certificate-authority-data": base64.b64encode(ca).decode()} if ca else {})}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }
    )


@pytest.fixture
def proxy(cluster: StandaloneCluster) -> Iterator[FaultProxy]:
    administrator = cluster.credentials.administrator()
    client = (administrator.certificate, administrator.key)
    with FaultProxy(cluster.server, ca_file=administrator.ca, client=client) as proxy:
        yield proxy


@pytest.fixture
def behind(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The stand-in, which reaches the API server through the proxy."""
    monkeypatch.setenv("PATH", f"{cache_root() / 'bin'}:/usr/local/bin:/usr/bin:/bin")
    with started(KubernetesPlugin()) as client:
        client.configure({"kubeconfig": kubeconfig(proxy.url), "enableServerSideApply": "true"})
        yield client


def make(plugin: Client, token: str, name: str, news: dict[str, Any]) -> tuple[str, Any]:
    """Check and create; the id and the outputs."""
    inputs = decode(plugin.check(token, name, news).inputs)
    made = plugin.create(token, name, inputs)
    return made[0], made[1]


def config_map(namespace: str, **data: str) -> dict[str, Any]:
    """Inputs of ConfigMap ``one``."""
    return {"metadata": {"name": "one", "namespace": namespace}, "data": data}


@pytest.mark.parametrize("seed", range(3))
def test_passing_faults_all_along_are_survived(
    behind: Client, proxy: FaultProxy, api: ClusterClient, namespace: str, seed: int
) -> None:
    proxy.set_schedule(Seeded(seed, rate=0.4, faults=(*PASSING_FAULTS, Fault("hang", seconds=0.3))))
    made, outputs = make(behind, CONFIG, "one", config_map(namespace, a="1"))
    make(behind, ACCOUNT, "one", {"metadata": {"name": "one", "namespace": namespace}})
    before = api.get(kind_of("ConfigMap"), namespace, "one")
    assert before is not None
    assert before["data"] == {"a": "1"}
    inputs = decode(behind.check(CONFIG, "one", config_map(namespace, a="2")).inputs)
    changed = behind.update(CONFIG, "one", made, old_inputs=outputs, olds=outputs, news=inputs)
    after = api.get(kind_of("ConfigMap"), namespace, "one")
    assert after is not None
    assert (after["data"], after["metadata"]["uid"]) == ({"a": "2"}, before["metadata"]["uid"])
    behind.delete(CONFIG, "one", made, old_inputs=inputs, olds=changed)
    assert api.get(kind_of("ConfigMap"), namespace, "one") is None
    assert any(fault for _, fault in proxy.log), "nothing went wrong, so nothing was survived"


def test_a_server_that_stays_wrong_is_given_up_and_the_next_run_goes_on(
    behind: Client, proxy: FaultProxy, api: ClusterClient, namespace: str
) -> None:
    def no_writes(request: Request) -> Fault | None:
        return Fault("answer", 500) if request.method == "PATCH" and "configmaps" in request.path else None

    proxy.set_schedule(no_writes)
    make(behind, ACCOUNT, "one", {"metadata": {"name": "one", "namespace": namespace}})
    with pytest.raises(grpc.RpcError) as caught:
        make(behind, CONFIG, "one", config_map(namespace, a="1"))
    told = str(caught.value.details())
    assert f"{proxy.url}/api/v1/namespaces/{namespace}/configmaps/one" in told
    assert "500" in told
    assert sum(request.method == "PATCH" and "configmaps" in request.path for request, _ in proxy.log) == 5
    assert api.get(kind_of("ServiceAccount"), namespace, "one") is not None
    proxy.set_schedule(lambda _: None)
    make(behind, CONFIG, "one", config_map(namespace, a="1"))
    assert api.get(kind_of("ConfigMap"), namespace, "one") is not None


def test_retry_after_is_heeded(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    asked = iter([too_many(2)])
    proxy.set_schedule(lambda request: next(asked, None) if request.method == "PATCH" else None)
    make(behind, CONFIG, "one", config_map(namespace))
    assert "429" in behind.engine.text()
    assert "again in 2.0 s" in behind.engine.text()


@pytest.mark.parametrize("certificate", ["unknown-authority", "expired", "other-name"])
def test_a_bad_certificate_is_refused_at_once_and_nothing_is_sent(
    cluster: StandaloneCluster, namespace: str, certificate: Any
) -> None:
    ours = cluster.credentials.administrator()
    with (
        FaultProxy(
            cluster.server, certificate=certificate, ca_file=ours.ca, client=(ours.certificate, ours.key)
        ) as proxy,
        started(KubernetesPlugin()) as plugin,
    ):
        trusted = ours.ca.read_bytes() if certificate == "unknown-authority" else proxy.certificate
        plugin.configure({"kubeconfig": kubeconfig(proxy.url, trusted), "enableServerSideApply": "true"})
        with pytest.raises(grpc.RpcError) as caught:
            make(plugin, CONFIG, "one", config_map(namespace))
        told = str(caught.value.details())
        assert proxy.url in told
        assert "does not vouch for this server" in told
        assert proxy.requests == 0


def test_a_release_whose_api_server_fails_is_installed_by_the_next_run(
    behind: Client, proxy: FaultProxy, api: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: one\nversion: 1.0.0\n")
    (tmp_path / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"
    )
    release = {"chart": str(tmp_path), "name": "rel", "namespace": namespace, "timeout": 30}

    def no_maps(request: Request) -> Fault | None:
        return Fault("answer", 500) if request.method == "POST" and "configmaps" in request.path else None

    proxy.set_schedule(no_maps)
    with pytest.raises(grpc.RpcError) as caught:
        make(behind, RELEASE, "rel", release)
    told = str(caught.value.details())
    assert f"Release {namespace}/rel" in told
    assert proxy.url in told
    assert api.get(kind_of("ConfigMap"), namespace, "rel") is None
    proxy.set_schedule(lambda _: None)
    make(behind, RELEASE, "rel", release)
    assert api.get(kind_of("ConfigMap"), namespace, "rel") is not None
