"""NVIDIA's Triton as a pod on a real kubelet: installed from the plan, proved, updated under a load; a refused model leaves it serving."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from lab.pool_rack import MODEL, PoolRack
from lab.small_rack import traces
from thoroughness import points

from pinion.checks.claims import checks
from pinion.lab.models.artefacts import ModelError

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

#: Prints the findings of all claims about the release, as the operator's place has them.
_VERIFY = """
import json, sys
from pathlib import Path
from pinion.checks.claims import checks
from pinion.checks.probers.cluster import cluster_prober
from pinion.drivers.hosts.inventory import plan_of
plan = plan_of(Path(sys.argv[1]))
mine = [check for check in checks(plan) if check.subject == sys.argv[3]]
print(json.dumps([finding.model_dump(mode="json") for finding in cluster_prober(Path(sys.argv[2]))(plan, mine)]))
"""


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolRack]:
    """The rack, with the release installed."""
    made = PoolRack.make(tmp_path_factory.mktemp("pool"), "t-pool")
    pool = PoolRack(made.instance, made.folder)
    try:
        pool.state()
    except ModelError as error:
        pytest.skip(str(error))
    try:
        pool.up()
        pool.join()
        pool.prepare_cluster()
        pool.install()
        yield pool
    finally:
        pool.down("--purge")
    assert traces([pool]) == []


def findings(rack: PoolRack) -> dict[str, Any]:
    """The findings of the release's claims by the last part of their ids."""
    arguments = (str(rack.site), rack.kubeconfig("kubeconfig"), rack.release.name)
    found = json.loads(rack.inside(sys.executable, "-c", _VERIFY, *arguments))
    return {finding["check"]["id"].rpartition(".")[2]: finding for finding in found}


def test_every_claim_about_it_is_proved(rack: PoolRack) -> None:
    found = findings(rack)
    wanted = [check.id for check in checks(rack.plan) if check.subject == rack.release.name]
    assert [finding["check"]["id"] for finding in found.values()] == wanted
    assert {name: finding["outcome"] for name, finding in found.items()} == dict.fromkeys(
        ("objects", "http", "pods", "digest", "answer", "latency"), "proved"
    )
    assert {finding["evidence"] for finding in found.values()} == {"emulated"}
    assert found["latency"]["found"].endswith("40 of 40 answered")


def test_it_answers_as_the_reference_does(rack: PoolRack) -> None:
    wanted: Any = rack.model.manifest["reference"]
    body = rack.folder / "asked.json"
    body.write_text(json.dumps({"text_input": wanted["prompt"], "max_tokens": len(wanted["tokens"])}))
    proxy = f"/api/v1/namespaces/models/services/{rack.release.name}:8000/proxy/v2/models/{MODEL}/generate"
    answer = json.loads(rack.kubectl("create", "--raw", proxy, "-f", str(body), who="kubeconfig"))
    assert answer["tokens"] == wanted["tokens"]


def test_the_chart_tests_itself(rack: PoolRack) -> None:
    assert "Succeeded" in rack.helm("test", rack.release.name, "--timeout", "120s")


def test_the_pod_has_no_rights_and_sees_what_it_needs(rack: PoolRack) -> None:
    """The namespace holds pods to Pod Security's level restricted; so what is seen here has been admitted by it."""
    (pod,) = rack.pods()
    assert pod["spec"]["nodeName"] == "nv-1"
    look = "import os; print(os.getuid(), os.access('/models/x', os.W_OK), os.path.exists('/var/run/secrets/kubernetes.io'))"
    exec_ = ("exec", pod["metadata"]["name"], "-c", "triton", "--", "python3.11", "-c", look)
    assert rack.kubectl("-n", "models", *exec_).split() == ["65532", "False", "False"]
    status = rack.kubectl("get", "namespace", "models", "-o", "jsonpath={.metadata.labels}")
    assert json.loads(status)["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_flows_of_the_plan_hold_and_nothing_else(rack: PoolRack) -> None:
    (pod,) = rack.pods()
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    server = "10.77.100.10"
    rack.machine("mgmt-1").run(
        ["systemd-run", "--unit=closed", "python3", "-m", "http.server", "--bind", server, "8091"]
    )
    deadline = time.monotonic() + 30
    while not rack.reaches("nv-1", server, 8091):
        assert time.monotonic() < deadline
    found = {
        "mgmt-1 asks": rack.reaches("mgmt-1", address, 8000),
        "mgmt-1 fetches metrics": rack.reaches("mgmt-1", address, 8002),
        "the pod fetches its model": rack.pod_reaches(name, server, 8090),
        "the pod talks to another port": rack.pod_reaches(name, server, 8091),
        "the pod talks to the API server": rack.pod_reaches(name, server, 6443),
    }
    assert found == {
        "mgmt-1 asks": True,
        "mgmt-1 fetches metrics": True,
        "the pod fetches its model": True,
        "the pod talks to another port": False,
        "the pod talks to the API server": False,
    }


@pytest.mark.parametrize(
    "changes",
    [{"replicas": 2, "batching": {"window": "4ms"}}, {"replicas": 1, "batching": {"window": "1ms", "preferred": [4]}}],
    ids=["more", "fewer"],
)
def test_an_update_loses_no_request(rack: PoolRack, changes: dict[str, object]) -> None:
    rack.pool(**changes)
    with rack.load(most=points(0, 10_000) or None) as told:
        rack.install()
    assert told["failed"] == {}
    assert told["asked"] > points(50, 9_999)
    assert len(rack.pods()) == changes["replicas"]
    assert findings(rack)["pods"]["outcome"] == "proved"
    name = f"/api/v1/namespaces/models/services/{rack.release.name}:8000/proxy/v2/models/{MODEL}/config"
    batching = json.loads(rack.kubectl("get", "--raw", name))["dynamic_batching"]
    window = changes["batching"]
    assert isinstance(window, dict)
    assert f"{batching['max_queue_delay_microseconds'] // 1000}ms" == window["window"]


#: What the plan may say, or could never say, of the next revision; what is told of it, and when: "told" by the pods of a revision that is
#: rolled back, "refused" before anything is touched.
BROKEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an image that nobody has": (
        {"image": {"reference": "pinion.invalid/triton:0", "pullPolicy": "Never"}},
        ["container model: ErrImageNeverPull", "to change: the image pinion.invalid/triton:0"],
    ),
    "no node for it": (
        {"nodeSelector": {"kubernetes.io/hostname": "nobody"}},
        ["nodes are available", "to change: the node that models.pinion-tiny.pool names"],
    ),
}
REFUSED = {
    "another file": ("tiny.onnx", b"\0", ["gives another file: its SHA-256 is not"]),
    "not there": ("no-such.onnx", b"", ["no-such.onnx: HTTP 404"]),
}


@contextmanager
def goes_on_serving(rack: PoolRack) -> Iterator[None]:
    """What is done in the block loses no request, and the pods of before are there after it."""
    before = {pod["metadata"]["name"] for pod in rack.pods()}
    with rack.load() as told:
        yield
    assert told["failed"] == {}
    assert told["asked"] > 50
    assert {pod["metadata"]["name"] for pod in rack.pods()} >= before


def explained(rack: PoolRack, error: str, words: list[str]) -> None:
    """Whether *error* says of the release which pod, why, and that the former one serves."""
    for expected in (f"Release models/{rack.release.name}", "pod triton-pinion-tiny-", *words, "Rolled back: revision"):
        assert expected in error, error


@pytest.mark.parametrize("name", BROKEN)
def test_a_revision_that_does_not_get_ready_is_explained_and_the_former_serves(rack: PoolRack, name: str) -> None:
    values, words = BROKEN[name]
    with goes_on_serving(rack):
        error, said = rack.bring(seconds=10, **values)
    explained(rack, error, words)
    assert any(line.startswith("waits: pod triton-pinion-tiny-") for line in said), said


def test_a_probe_that_fails_is_told_in_the_words_of_the_kubelet(rack: PoolRack) -> None:
    model = rack.release.values["model"]
    assert isinstance(model, dict)
    with goes_on_serving(rack):
        # Triton serves the model under its own name; the probe asks for another
        error, _ = rack.bring(seconds=25, model={**model, "name": "nobody"})
    explained(rack, error, ["container triton: Readiness probe failed: HTTP probe failed with statuscode: 400", "  | "])


def test_bad_values_are_refused_before_anything_is_touched(rack: PoolRack) -> None:
    held = rack.helm("history", rack.release.name, "--output", "json")
    error, _ = rack.bring(replicas="two")
    assert "/replicas" in error or "replicas:" in error, error
    assert rack.helm("history", rack.release.name, "--output", "json") == held


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_refused_is_explained_and_the_one_before_serves(rack: PoolRack, name: str) -> None:
    served, last, words = REFUSED[name]
    content = rack.model.onnx.read_bytes()
    signed = rack.folder / "signed.onnx"
    signed.write_bytes(content[: len(content) - len(last)] + last)
    before = rack.site.read_text()
    rack.pool(**rack.signed(signed, served))
    try:
        with goes_on_serving(rack):
            error, _ = rack.bring(seconds=15)
    finally:
        rack.site.write_text(before)
    explained(rack, error, ["container model: ", "  | the model is REFUSED: ", *words])
    assert findings(rack)["answer"]["outcome"] == "proved"


def test_nothing_is_left_of_it_when_it_goes(rack: PoolRack) -> None:
    rack.uninstall()
    kinds = "deployments,pods,services,configmaps,secrets,networkpolicies,poddisruptionbudgets"
    asked = ("-n", "models", "get", kinds, "-l", f"app.kubernetes.io/instance={rack.release.name}", "-o", "name")
    drain = rack.release.values["drain"]
    assert isinstance(drain, dict)
    deadline = time.monotonic() + 2 * sum(drain.values())
    while left := rack.kubectl(*asked).split():
        # only pods, until they have given their last answers
        assert {name.partition("/")[0] for name in left} == {"pod"}, left
        assert time.monotonic() < deadline, left
        time.sleep(1)
    assert rack.kubectl("-n", "models", "get", "secrets", "-o", "name").split() == []
