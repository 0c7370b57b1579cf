"""The whole stack of a site whose Pis join by themselves: the real engine and program, a real API server, NetBox and switch in memory.

`pulumi up` comes before the hosts are converged, and goes well while no node is there; the next one gives those that came what is theirs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine.netbox_server import TOKEN, serving
from engine.stack import missing_tool, tools

from pinion.drivers.cluster import ClusterClient, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.plan.concerns import edge_cluster

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,  # the program on an engine in memory, in every run: tests/infra/test_nodes.py
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]

REPOSITORY = Path(__file__).parents[2]
SITE, PI, SERVER = "joining", "pi-01", "nv-1"
NODE, NAMESPACE, CONFIG_MAP = kind_of("Node"), kind_of("Namespace"), kind_of("ConfigMap")


def write_project(root: Path) -> None:
    """A project of the site `joining`: the lab with one Pi, which joins by itself, on switches that are files."""
    stated = yaml.safe_load((REPOSITORY / "inventories/lab/site.yml").read_text())
    stated["site"] = SITE
    (group,) = stated["pis"].values()
    group["numbers"] = 1
    stated["concerns"][edge_cluster.NAME] = {}
    site = root / "inventories" / SITE / "site.yml"
    site.parent.mkdir(parents=True)
    site.write_text(yaml.safe_dump(stated, sort_keys=False))
    provider = root / "bin/pulumi-resource-pinion"
    provider.parent.mkdir()
    provider.write_text(f'#!/bin/sh\nexec {sys.executable} {REPOSITORY}/tests/engine/file_switch.py "$@"\n')
    provider.chmod(0o755)
    project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text())
    project["main"] = str(REPOSITORY / "infra")
    project["runtime"]["options"]["virtualenv"] = str(Path(sys.prefix))
    folders = {"pinion": root / "bin", "kubernetes": Path(sys.executable).parent}
    project["plugins"]["providers"] = [{"name": name, "path": str(path)} for name, path in folders.items()]
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(project))


class Project:
    """The project folder *root*, and the commands that a person runs in it."""

    def __init__(self, root: Path, settings: dict[str, str]) -> None:
        self.root = root
        write_project(root)
        (root / "state").mkdir()
        self.run("pulumi", "stack", "init", SITE)
        for key, value in settings.items():
            self.run("pulumi", "config", "set", "--stack", SITE, "--secret", key, given=value)

    def run(self, *argv: str, given: str = "") -> str:
        """The standard output of a command that must end well."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        own = {
            "PATH": os.pathsep.join(
                [str(self.root / "bin"), str(Path(sys.executable).parent), str(tools()), kept["PATH"]]
            ),
            "PINION_ROOT": str(self.root),
            "PULUMI_HOME": str(self.root / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.root / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "only for tests",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_RUN_PROGRAM": "true",
            "ENGINE_TEST_SWITCHES": str(self.root),
        }
        done = subprocess.run(
            argv, cwd=self.root, env=kept | own, input=given, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, f"{argv} ended with {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def decommission(self, name: str) -> None:
        """State in the site file that *name* leaves."""
        site = self.root / "inventories" / SITE / "site.yml"
        site.write_text(f"{site.read_text()}decommissioned: [{name}]\n")

    def up(self) -> dict[str, Any]:
        """`pinion stack up`, as `pinion up` runs it."""
        answer: dict[str, Any] = json.loads(self.run("pinion", "stack", "up", SITE, "--json"))
        return answer


@pytest.fixture
def project(tmp_path: Path, cluster: StandaloneCluster, api: ClusterClient) -> Iterator[Project]:
    """A configured stack that has never been up; what it makes in the cluster is taken away."""
    with serving() as netbox:
        settings = {
            "netbox:url": netbox.url,
            "netbox:token": TOKEN,
            "kubernetes:kubeconfig": cluster.kubeconfig.read_text(),
        }
        yield Project(tmp_path, settings)
    made = ((NODE, None, PI), (NAMESPACE, None, "edge-services"), (CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS))
    for kind, namespace, name in made:
        if (held := api.get(kind, namespace, name)) is not None:
            api.delete(kind, namespace, name, uid=held["metadata"]["uid"])


def test_it_is_up_the_first_time_and_nodes_that_come_get_their_labels(project: Project, api: ClusterClient) -> None:
    first = project.up()
    assert first["awaited"] == [SERVER, PI]
    assert not any(PI in touched and "NodePatch" in touched for touched in first["touched"])
    assert api.get(NAMESPACE, None, "edge-services") is not None, "what needs no node is there"
    api.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PI}}, manager="kubelet")
    second = project.up()
    assert second["awaited"] == [SERVER]
    assert second["touched"] == [f"create {PI} (kubernetes:core/v1:NodePatch)"]
    held = api.get(NODE, None, PI)
    assert held is not None
    assert held["metadata"]["labels"].items() >= {"edge": "pi", "arch": "arm64"}.items()
    members = api.get(CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS)
    assert members is not None
    assert members["data"].keys() == {PI, SERVER, "mgmt-1"}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MEMBERS, "namespace": MEMBERS_NAMESPACE}}
    entered = {**head, "data": {"their-node": "of another team"}}
    api.apply(CONFIG_MAP, entered, manager="somebody")
    project.decommission(PI)
    assert f"update {MEMBERS} (kubernetes:core/v1:ConfigMap)" in project.up()["touched"]
    members = api.get(CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS)
    assert members is not None
    assert members["data"].keys() == {SERVER, "mgmt-1", "their-node"}
    kept = [path for path in (project.root / "state").rglob("*") if path.is_file()]
    assert kept
    assert not any(b"current-context" in path.read_bytes() for path in kept), "a kubeconfig's text is kept encrypted"
