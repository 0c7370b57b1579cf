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
NODE, NAMESPACE = "pinion:cluster:Node", "kubernetes:core/v1:Namespace"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RELEASE, SWITCH = "pinion:cluster:Release", "pinion:switch:Config"
KUBERNETES = "pulumi:providers:kubernetes"


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
            is_nodes = self.path == "/api/v1/nodes"
            self.send_response(403 if not engine.of(SWITCH) else 200 if is_nodes else 404)
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


def update(
    stated: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    *,
    preview: bool = False,
    settings: Mapping[str, str] | None = None,
    root: Path = INFRA.parent,
) -> Any:
    """Run the program for the lab below *root* with *engine* and the kubeconfig *stated*; the stack's output `awaited`."""
    monkeypatch.syspath_prepend(str(INFRA))
    monkeypatch.setenv("PINION_ROOT", str(root))
    loop = asyncio.new_event_loop()

    def program() -> None:
        runpy.run_path(str(INFRA / "__main__.py"))

    def run() -> Any:
        asyncio.set_event_loop(loop)
        set_mocks(engine, project="pinion", stack="lab", preview=preview)
        set_all_config({"netbox:url": "https://netbox.example", "kubernetes:kubeconfig": stated, **(settings or {})})
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


def with_nodes(
    nodes: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    preview: bool = False,
    settings: Mapping[str, str] | None = None,
    root: Path = INFRA.parent,
) -> tuple[Engine, Any]:
    """What an update (or its preview) makes while the cluster has *nodes*, and which it awaits."""
    engine = Engine()
    with api_server(engine, nodes) as url:
        return engine, update(kubeconfig(url), engine, monkeypatch, preview=preview, settings=settings, root=root)


@pytest.mark.parametrize("preview", [True, False])
def test_what_has_not_joined_is_awaited_and_the_rest_is_done(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, awaited = with_nodes(["nv-1", "pi-03", "somebody-elses"], monkeypatch, preview=preview)
    assert engine.of(NODE).keys() == {"nv-1", "pi-03"}
    assert engine.of(NODE)["pi-03"]["labels"] == {"edge": "pi", "arch": "arm64"}
    assert awaited == ["pi-01", "pi-02", "pi-04"]
    assert set(engine.of(RELEASE)) == {"hello", "triton-pinion-tiny"}
    for name, release in engine.of(RELEASE).items():
        assert release.get("wait", True) is True
        assert release["chart"] == f"charts/{name.partition('-')[0]}", "no checkout is in it"
    for name, namespace in engine.of(NAMESPACE).items():
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == ("restricted" if name == "models" else "baseline")
        assert labels["pinion/site"] == "lab"
        assert labels["pod-security.kubernetes.io/warn"] == labels["pod-security.kubernetes.io/audit"] == "restricted"
    assert engine.of(NAMESPACE)
    assert not engine.of(CONFIG_MAP), "nobody joins by Pinion"


def test_a_release_is_placed_and_not_waited_for_while_no_node_can_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, awaited = with_nodes(["pi-01"], monkeypatch)
    assert "nv-1" in awaited
    releases = engine.of(RELEASE)
    assert set(releases) == {"hello", "triton-pinion-tiny"}
    for release in releases.values():
        assert release["wait"] is False


def test_a_cluster_that_cannot_be_asked_is_one_error_with_its_address_and_nothing_of_it_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pinion.drivers.cluster.client.FIRST_WAIT", 0.01)
    engine = Engine()
    with pytest.raises(pulumi.RunError, match=r"(?s)https://127.0.0.1:1/.*kubernetes:kubeconfig"):
        update(kubeconfig("https://127.0.0.1:1"), engine, monkeypatch)
    assert not {kind for kind, _, _ in engine.made} & {NODE, NAMESPACE, RELEASE, KUBERNETES}


def test_before_the_first_switch_is_configured_it_is_a_warning_of_the_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    engine = Engine()
    awaited = update("/nonexistent/kubeconfig", engine, monkeypatch, preview=True)
    assert engine.of(NODE).keys() == {"nv-1", "pi-01", "pi-02", "pi-03", "pi-04"}
    assert awaited == []
    assert any("/nonexistent/kubeconfig" in text and "switches" in text for text in said)


def test_the_cluster_is_the_sites_whatever_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = with_nodes(["nv-1"], monkeypatch)
    (provider,) = engine.of(KUBERNETES).values()
    assert provider["clusterIdentifier"] == "lab"
    assert provider["upsertExistingObjects"] == "true"


@pytest.mark.parametrize(
    ("stated", "version"), [({}, "4.30.0"), ({"pinion:kubernetesPlugin": "stand-in"}, "4.30.0-stand-in")]
)
def test_every_stack_gets_the_official_plugin_unless_it_says_otherwise(
    stated: dict[str, str], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    register = pulumi.ProviderResource.__init__

    def heard(self: pulumi.ProviderResource, package: str, name: str, props: Any, opts: Any = None, *rest: Any) -> None:
        if package == "kubernetes":
            asked.append(opts.version)
        register(self, package, name, props, opts, *rest)

    monkeypatch.setattr(pulumi.ProviderResource, "__init__", heard)
    with_nodes(["nv-1"], monkeypatch, settings=stated)
    assert asked == [version]


def test_another_word_for_the_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pulumi.RunError, match="official"):
        with_nodes(["nv-1"], monkeypatch, settings={"pinion:kubernetesPlugin": "mine"})


@pytest.mark.parametrize("preview", [True, False])
def test_what_the_site_file_states_in_vain_is_a_warning_with_its_line(
    preview: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    site = tmp_path / "inventories/lab/site.yml"
    site.parent.mkdir(parents=True)
    (tmp_path / "charts").symlink_to(INFRA.parent / "charts")
    lab = (INFRA.parent / "inventories/lab/site.yml").read_text(encoding="utf-8")
    site.write_text(f"{lab}\nrouting: {{cpu: 70%}}\n", encoding="utf-8")
    with_nodes(["nv-1"], monkeypatch, preview=preview, root=tmp_path)
    expected = [str(remark) for remark in not_applied(site)]
    assert len(expected) == 1
    assert said[0].splitlines() == expected
