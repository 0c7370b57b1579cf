"""A tree of Flux or Argo CD on a real API server: it takes each object, and a cluster changes hands without losing anything.

What the two would do is done with their own means: their definitions in the API server, server-side apply under their names, helm.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine.netbox_server import TOKEN, serving
from engine.stack import missing_tool
from gitops.built import KUBECTL, MISSING, WHERE, built
from gitops.crds import definitions, missing

from cluster.project import PI, SITE, Project
from pinion.drivers.cluster import ClusterClient, helm_records, kind_of
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE
from pinion.site.model import ClusterOwner

SERVICES, RELEASE = "edge-services", "hello"
HELD = (
    (kind_of("Namespace"), None, SERVICES),
    (kind_of("ServiceAccount"), SERVICES, f"{SERVICES}-workload"),
    (kind_of("NetworkPolicy"), SERVICES, "default-deny"),
    (kind_of("Deployment"), SERVICES, RELEASE),
    (kind_of("Service"), SERVICES, RELEASE),
    (kind_of("NetworkPolicy"), SERVICES, RELEASE),
)
#: What the state has of them, by name; and moments at which handing it over is killed: before, at and after the import, as machines go.
OWNERS = {SERVICES, RELEASE, f"{SERVICES}-workload", f"{SERVICES}-default-deny"}
KILLED_AFTER = (0.5, 2.0, 3.0, 4.0)
#: The name under which each applies (their source: the controllers' field managers).
MANAGERS = {ClusterOwner.FLUX: "kustomize-controller", ClusterOwner.ARGOCD: "argocd-controller"}

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not there: make tools"),
]


class Kubectl:
    """kubectl as the cluster's administrator."""

    def __init__(self, cluster: StandaloneCluster) -> None:
        self._cluster = cluster

    def attempt(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """A command, however it ends."""
        command = [str(KUBECTL), "--kubeconfig", str(self._cluster.kubeconfig), *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)

    def run(self, *words: str, given: str = "") -> str:
        """What a command says that must end well."""
        done = self.attempt(*words, given=given)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def kubectl(cluster: StandaloneCluster) -> Kubectl:
    """See `Kubectl`."""
    return Kubectl(cluster)


@pytest.fixture(scope="module")
def defined(kubectl: Kubectl) -> Iterator[None]:
    """The API server knows the kinds of Flux and Argo CD, and has their namespaces."""
    if (why := missing()) is not None:
        pytest.skip(why)
    kinds = yaml.safe_dump_all(definitions())
    kubectl.run("apply", "--server-side", "-f", "-", given=kinds)
    kubectl.run("wait", "--for=condition=Established", "--timeout=60s", "-f", "-", given=kinds)
    for namespace in ("flux-system", "argocd"):
        kubectl.run("create", "namespace", namespace)
    yield
    for namespace in ("flux-system", "argocd"):
        kubectl.run("delete", "namespace", namespace, "--wait=false")
    kubectl.run("delete", "-f", "-", "--wait=false", given=kinds)


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, cluster: StandaloneCluster, api: ClusterClient
) -> Iterator[Project]:
    """A stack that is up and owns its cluster; its site file says where a tree lies."""
    api.apply(kind_of("Node"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PI}}, manager="kubelet")
    with serving() as netbox:
        settings = {
            "netbox:url": netbox.url,
            "netbox:token": TOKEN,
            "kubernetes:kubeconfig": cluster.kubeconfig.read_text(),
        }
        made = Project(tmp_path_factory.mktemp("stack"), settings)
        state(made, repository=WHERE)
        made.up()
        yield made
    for kind, namespace, name in (
        (kind_of("Node"), None, PI),
        (kind_of("Namespace"), None, SERVICES),
        (kind_of("ConfigMap"), MEMBERS_NAMESPACE, MEMBERS),
    ):
        if (held := api.get(kind, namespace, name)) is not None:
            api.delete(kind, namespace, name, uid=held["metadata"]["uid"])


def state(project: Project, **kubernetes: Any) -> None:
    """Have the site file say *kubernetes* in its section of that name."""
    path = project.root / "inventories" / SITE / "site.yml"
    stated = yaml.safe_load(path.read_text())
    stated["kubernetes"].update(kubernetes)
    path.write_text(yaml.safe_dump(stated, sort_keys=False))


def tree_of(project: Project, tool: ClusterOwner) -> Path:
    """The tree of the project's site, in a git repository of its own; the repository's root."""
    repository = project.root / tool.value
    project.run("pinion", "render", SITE, "--gitops", tool.value, str(repository / WHERE["folder"]))
    return repository


def held(api: ClusterClient) -> dict[str, tuple[str, int | None]]:
    """Which object each of the cluster is (its uid), and of which generation: a new one would restart pods."""
    found = {}
    for kind, namespace, name in HELD:
        item = api.get(kind, namespace, name)
        assert item is not None, f"{kind.kind} {name} is gone"
        assert item["metadata"].get("deletionTimestamp") is None, f"{kind.kind} {name} is being deleted"
        found[f"{kind.kind} {name}"] = item["metadata"]["uid"], item["metadata"].get("generation")
    return found


def known(project: Project) -> set[str]:
    """What the stack's state has of all that its cluster's owner makes."""
    return OWNERS & {resource["urn"].rpartition("::")[2] for resource in project.export()["resources"]}


def kill_hand_over(project: Project, seconds: float) -> None:
    """Begin to hand over, and kill the command with all that it started after *seconds*."""
    command = subprocess.Popen(
        ["pinion", "stack", "hand-over", SITE],
        cwd=project.root,
        env=project.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command.pid, signal.SIGKILL)
    command.wait()


def apply(kubectl: Kubectl, project: Project, repository: Path, tool: ClusterOwner, *more: str) -> None:
    """Do what *tool* does with the tree in *repository*."""
    made = built(repository, tool)
    by = ("apply", "--server-side", "--force-conflicts", "--field-manager", MANAGERS[tool], "--validate=strict", *more)
    kubectl.run(*by, "-f", "-", given=yaml.safe_dump_all(made.objects.values()))
    for release in made.releases.values():
        if tool is ClusterOwner.FLUX:
            values = json.dumps(release.values)
            options = ("--namespace", release.namespace, "--values", "-", "--history-max", "10")
            kubeconfig = ("--kubeconfig", str(project.root / "kubeconfig"))
            helm = str(cache_root() / "bin/helm")
            project.run(helm, "upgrade", release.name, str(release.chart), *options, *kubeconfig, given=values)
        else:
            kubectl.run(*by, "-n", release.namespace, "-f", "-", given=yaml.safe_dump_all(release.objects().values()))


@pytest.mark.parametrize("tool", MANAGERS)
def test_the_api_server_takes_each_object_of_a_tree_and_nothing_misspelt(
    tool: ClusterOwner, project: Project, kubectl: Kubectl, defined: None
) -> None:
    repository = tree_of(project, tool)
    made = built(repository, tool)
    dry = ("apply", "--server-side", "--dry-run=server", "--force-conflicts", "--field-manager", MANAGERS[tool])
    said = kubectl.run(*dry, "--validate=strict", "-f", "-", given=yaml.safe_dump_all(made.own)).splitlines()
    assert len(said) == len(made.own)
    assert all(line.endswith("serverside-applied (server dry run)") for line in said)
    said = kubectl.run(
        *dry, "--validate=strict", "-f", "-", given=yaml.safe_dump_all(made.objects.values())
    ).splitlines()
    assert len(said) == len(made.objects)
    for item in made.own:
        misspelt = {**item, "spec": {**item["spec"], "intervall": "1m"}}
        refused = kubectl.attempt(*dry, "--validate=strict", "-f", "-", given=yaml.safe_dump(misspelt))
        assert refused.returncode != 0
        assert "intervall" in refused.stderr


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", [ClusterOwner.FLUX, pytest.param(ClusterOwner.ARGOCD, marks=pytest.mark.variant)])
def test_a_cluster_changes_hands_and_back_and_loses_nothing(
    tool: ClusterOwner, project: Project, kubectl: Kubectl, api: ClusterClient, cluster: StandaloneCluster
) -> None:
    (project.root / "kubeconfig").write_text(cluster.kubeconfig.read_text())
    repository = tree_of(project, tool)
    before = held(api)
    apply(kubectl, project, repository, tool)
    assert held(api) == before, "taken over as it is"
    assert project.steps() == [], "both say the same"

    state(project, owner=tool.value)
    for command in (("preview",), ("up", "--yes", "--skip-preview"), ("destroy", "--yes", "--skip-preview")):
        refused = project.attempt("pulumi", *command, "--stack", SITE)
        assert refused.returncode != 0
        told = " ".join((refused.stdout + refused.stderr).split())
        assert f"{tool.value} owns the cluster" in told
        assert f"pinion stack hand-over {SITE}" in told
        assert held(api) == before
    for seconds in KILLED_AFTER:
        kill_hand_over(project, seconds)
        assert known(project) in (set(), OWNERS), "all of it is forgotten, or nothing"
    project.run("pinion", "stack", "hand-over", SITE)
    assert known(project) == set()
    assert json.loads(project.run("pinion", "stack", "hand-over", SITE, "--json"))["forgotten"] == []
    assert [step for step in project.steps() if step["op"] != "update"] == []
    project.up()
    assert held(api) == before, "an update leaves them alone"
    members, node = api.get(kind_of("ConfigMap"), MEMBERS_NAMESPACE, MEMBERS), api.get(kind_of("Node"), None, PI)
    assert members is not None
    assert node is not None
    assert node["metadata"]["labels"]["edge"] == "pi", "which stays the stack's"

    state(project, owner="pulumi")
    project.up()
    assert held(api) == before, "taken back as it is"
    assert project.steps("--refresh") == []
    assert [record.status for record in helm_records(api, SERVICES, RELEASE)].count("deployed") == 1


def test_a_stack_that_owns_its_cluster_forgets_nothing(project: Project) -> None:
    before = project.export()["resources"]
    refused = project.attempt("pinion", "stack", "hand-over", SITE)
    assert refused.returncode == 2
    assert "kubernetes.owner" in refused.stderr
    assert project.export()["resources"] == before
