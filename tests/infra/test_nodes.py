"""The Pulumi program, what it warns of, and nodes that have not joined the cluster: the real program, an engine in memory, a server that
lists nodes.

Which stages follow from it is in tests/unit/bringup/test_stages.py; a real engine and API server are in tests/cluster/test_stack.py.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import runpy
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import get_root_resource, set_all_config, set_mocks
from pulumi.runtime.stack import Stack, run_pulumi_func

from pinion.site.loader import not_applied

INFRA = Path(__file__).parents[2] / "infra"
PATCH, NAMESPACE = "kubernetes:core/v1:NodePatch", "kubernetes:core/v1:Namespace"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RELEASE, SWITCH = "kubernetes:helm.sh/v3:Release", "pinion:switch:Config"


class Engine(pulumi.runtime.Mocks):
    """Makes every resource, in the order in which they arrive."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, Mapping[str, Any]]] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made.append((args.typ, args.name, args.inputs))
        return args.name, dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        raise AssertionError(args.token)

    def of(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """The inputs of all resources of *kind*, by name."""
        return {name: inputs for typ, name, inputs in self.made if typ == kind}


@contextmanager
def api_server(engine: Engine, nodes: Sequence[str]) -> Iterator[str]:
    """The URL of a server that lists *nodes*, but only once *engine* has configured the switch."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = json.dumps({"items": [{"metadata": {"name": name}} for name in nodes]}).encode()
            self.send_response(200 if self.path == "/api/v1/nodes" and engine.of(SWITCH) else 403)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(server: str) -> str:
    """The text of a kubeconfig for *server*."""
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def update(stated: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, *, preview: bool = False) -> Any:
    """Run the program for the lab with *engine* and the kubeconfig *stated*; the stack's output `awaited`."""
    monkeypatch.syspath_prepend(str(INFRA))
    monkeypatch.delenv("PINION_ROOT", raising=False)
    loop = asyncio.new_event_loop()

    def program() -> None:
        runpy.run_path(str(INFRA / "__main__.py"))

    def run() -> Any:
        asyncio.set_event_loop(loop)
        set_mocks(engine, project="pinion", stack="lab", preview=preview)
        set_all_config({"netbox:url": "https://netbox.example", "kubernetes:kubeconfig": stated})
        loop.run_until_complete(run_pulumi_func(program))
        stack = get_root_resource()
        assert isinstance(stack, Stack)
        return loop.run_until_complete(stack.outputs["awaited"].future())

    try:
        return contextvars.copy_context().run(run)  # what Pulumi knows of this run ends with it
    finally:
        loop.close()
        for path in INFRA.glob("*.py"):
            sys.modules.pop(path.stem, None)


def with_nodes(nodes: Sequence[str], monkeypatch: pytest.MonkeyPatch, *, preview: bool = False) -> tuple[Engine, Any]:
    """What an update (or its preview) makes while the cluster has *nodes*, and which it awaits."""
    engine = Engine()
    with api_server(engine, nodes) as url:
        return engine, update(kubeconfig(url), engine, monkeypatch, preview=preview)


@pytest.mark.parametrize("preview", [True, False])
def test_what_has_not_joined_is_awaited_and_the_rest_is_done(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, awaited = with_nodes(["nv-1", "pi-03", "somebody-elses"], monkeypatch, preview=preview)
    assert engine.of(PATCH).keys() == {"nv-1", "pi-03"}
    assert engine.of(PATCH)["pi-03"]["metadata"]["labels"] == {"edge": "pi", "arch": "arm64"}
    assert awaited == ["pi-01", "pi-02", "pi-04"]
    assert set(engine.of(RELEASE)) == {"hello", "triton-pinion-tiny"}
    for release in engine.of(RELEASE).values():
        assert release["atomic"] is True
        assert "skipAwait" not in release
    for name, namespace in engine.of(NAMESPACE).items():
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == ("restricted" if name == "models" else "baseline")
        assert labels["pod-security.kubernetes.io/warn"] == labels["pod-security.kubernetes.io/audit"] == "restricted"
    assert engine.of(NAMESPACE)
    assert not engine.of(CONFIG_MAP), "nobody joins by Pinion"


def test_a_release_is_placed_and_not_waited_for_while_no_node_can_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, awaited = with_nodes(["pi-01"], monkeypatch)
    assert "nv-1" in awaited
    releases = engine.of(RELEASE)
    assert set(releases) == {"hello", "triton-pinion-tiny"}
    for release in releases.values():
        assert (release["atomic"], release["skipAwait"]) == (False, True)


def test_a_cluster_that_cannot_be_asked_is_told_by_its_resources_and_none_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    awaited = update("/nonexistent/kubeconfig", engine, monkeypatch)
    assert engine.of(PATCH).keys() == {"nv-1", "pi-01", "pi-02", "pi-03", "pi-04"}
    assert awaited == []


@pytest.mark.parametrize("preview", [True, False])
def test_what_the_site_file_states_in_vain_is_a_warning_with_its_line(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    update("/nonexistent/kubeconfig", Engine(), monkeypatch, preview=preview)
    expected = [str(remark) for remark in not_applied(INFRA.parent / "inventories/lab/site.yml")]
    assert expected
    assert said[0].splitlines() == expected
