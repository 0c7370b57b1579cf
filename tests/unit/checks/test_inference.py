"""Claims about a model server, proved on a real HTTP server that speaks KServe's protocol behind a proxy like the API server's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from pinion.checks.model import ANSWERED, Check, Finding, InferenceProbe, Outcome, PodsProbe, Topic
from pinion.checks.probers.cluster import cluster_prober, placed
from pinion.checks.probers.inference import REQUESTS
from pinion.plan import plan
from pinion.site.catalog import Evidence
from pinion.site.find import site_file
from pinion.site.loader import load

PROXY = "/api/v1/namespaces/models/services/triton-tiny:8000/proxy/v2/models/tiny"
OUTPUTS = [{"name": "text_output", "data": ["x"]}, {"name": "tokens", "data": [1, 2]}]


@dataclass
class Server:
    """What it answers by path, status and body; *seconds* each answer takes, the *slow* ones of them ten times as long."""

    answers: dict[str, tuple[int, object]] = field(default_factory=dict)
    seconds: float = 0.0
    slow: frozenset[int] = frozenset()
    asked: list[dict[str, Any]] = field(default_factory=list)
    kubeconfig: Path = Path()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    told = Server()
    told.answers = {
        f"{PROXY}/ready": (200, ""),
        f"{PROXY}/config": (200, {"parameters": {"sha256": {"string_value": "ab" * 32}}}),
        f"{PROXY}/infer": (200, {"outputs": OUTPUTS}),
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            told.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            time.sleep(told.seconds * (10 if len(told.asked) in told.slow else 1))
            self._answer()

        def _answer(self) -> None:
            status, body = told.answers.get(self.path, (404, {"error": "no such model"}))
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    told.kubeconfig = tmp_path / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{listening.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    told.kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", **named}))
    yield told
    listening.shutdown()
    listening.server_close()


def found(
    server: Server, asks: Literal["digest", "answer", "latency"], expected: str, within: float | None = None
) -> Finding:
    probe = InferenceProbe(namespace="models", service="triton-tiny", port=8000, model="tiny", asks=asks, within=within)
    check = Check(
        id="c", topic=Topic.SERVICES, subject="triton-tiny", claim="it is", expected=expected, probe=probe, remedy="look", origin="models",
        best=Evidence.EMULATED,
    )  # fmt: skip
    (finding,) = cluster_prober(server.kubeconfig)(plan(load(site_file("lab"))), [check])
    return finding


def test_the_digest_is_that_of_the_model_that_is_loaded(server: Server) -> None:
    assert found(server, "digest", "ab" * 32).outcome is Outcome.PROVED
    assert found(server, "digest", "cd" * 32).outcome is Outcome.FAILED
    server.answers[f"{PROXY}/ready"] = (400, "")
    assert found(server, "digest", "ab" * 32).found == "not ready (400)"
    server.answers |= {f"{PROXY}/ready": (200, ""), f"{PROXY}/config": (200, "<html>")}
    assert found(server, "digest", "ab" * 32).found == "not told (200)"


def test_an_answer_has_a_text_and_its_tokens(server: Server) -> None:
    assert found(server, "answer", ANSWERED).outcome is Outcome.PROVED
    (asked,) = server.asked
    assert asked["inputs"][0] == {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["The "]}


@pytest.mark.parametrize(
    ("status", "body"),
    [(503, {"error": "no endpoints"}), (200, {}), (200, []), (200, "text"), (200, {"outputs": OUTPUTS[:1]}), (200, {"outputs": [{}]})],
)  # fmt: skip
def test_anything_else_is_no_answer(server: Server, status: int, body: object) -> None:
    server.answers[f"{PROXY}/infer"] = (status, body)
    finding = found(server, "answer", ANSWERED)
    assert finding.outcome is Outcome.FAILED
    assert finding.found.startswith(f"status {status}: ")


def test_latency_is_that_of_the_slow_ones(server: Server) -> None:
    """Two of forty may be slow; three may not."""
    server.seconds = 0.02
    server.slow = frozenset({5, 25})
    finding = found(server, "latency", "at most 150 ms", within=0.15)
    assert finding.outcome is Outcome.PROVED, finding.found
    assert len(server.asked) == REQUESTS
    server.asked, server.slow = [], frozenset({5, 15, 25})
    finding = found(server, "latency", "at most 150 ms", within=0.15)
    assert finding.outcome is Outcome.FAILED, finding.found
    assert finding.found.endswith("40 of 40 answered")


def test_a_fast_refusal_is_no_latency(server: Server) -> None:
    server.answers[f"{PROXY}/infer"] = (503, {"error": "busy"})
    finding = found(server, "latency", "at most 5000 ms", within=5.0)
    assert finding.outcome is Outcome.FAILED
    assert finding.found.endswith("0 of 40 answered")


def test_a_server_that_is_not_there_is_not_run(server: Server) -> None:
    named = yaml.safe_load(server.kubeconfig.read_text())
    named["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    server.kubeconfig.write_text(yaml.safe_dump(named))
    for asks in ("digest", "answer", "latency"):
        finding = found(server, asks, ANSWERED, within=1.0)  # type: ignore[arg-type]
        assert finding.outcome is Outcome.NOT_RUN
        assert "127.0.0.1" in finding.found


def pod(name: str, node: str | None, ready: str, **metadata: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node}, "status": {"conditions": conditions}}


def test_pods_count_where_they_are_ready_and_may_be() -> None:
    good, going = pod("a", "nv-1", "True"), pod("b", "nv-1", "True", deletionTimestamp="now")
    assert placed([good, going], ["nv-1"]) == "1"
    assert placed([good, pod("c", "pi-01", "True")], ["nv-1"]) == "1; c on pi-01 is ready"
    assert placed([pod("d", None, "False"), good], ["nv-1"]) == "1; d on no node is not ready"
    assert placed([], ["nv-1"]) == "0"
    assert PodsProbe(namespace="models", release="r", nodes=("nv-1",)).kind == "pods"
