"""What a stack promises of its cluster, whichever Kubernetes plugin it has: the lab's stand-in, and Pulumi's own wherever there is one.

The real engine and program, a real API server and helm; NetBox and switch in memory. One stack for all tests: each leaves it as it was.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from engine.netbox_server import TOKEN, serving
from engine.stack import missing_tool

from cluster.by_hand import change_by_hand
from cluster.project import OFFICIAL, PI, SITE, STAND_IN, Project, official_plugin
from pinion.drivers.cluster import ClusterClient, ClusterReader, helm_records, kind_of
from pinion.drivers.cluster.drift import drift
from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.lab.state import cache_root
from pinion.plan.cluster import MEMBERS, MEMBERS_NAMESPACE, SITE_LABEL

NODE, NAMESPACE, CONFIG_MAP = kind_of("Node"), kind_of("Namespace"), kind_of("ConfigMap")
ACCOUNT, DEPLOYMENT = kind_of("ServiceAccount"), kind_of("Deployment")
SERVICES, RELEASE = "edge-services", "hello"
HEARTBEAT = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]
NO_OFFICIAL = "Pulumi's own Kubernetes plugin is neither on PATH nor among Pulumi's plugins: pulumi plugin install resource kubernetes"


@pytest.fixture(
    scope="module",
    params=[
        STAND_IN,
        pytest.param(OFFICIAL, marks=pytest.mark.skipif(official_plugin() is None, reason=NO_OFFICIAL)),
    ],
)
def project(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    cluster: StandaloneCluster,
    api: ClusterClient,
) -> Iterator[Project]:
    """A stack that is up; the site's one Pi is a node, its GPU server has not joined."""
    api.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": PI}}, manager="kubelet")
    with serving() as netbox:
        settings = {
            "netbox:url": netbox.url,
            "netbox:token": TOKEN,
            "kubernetes:kubeconfig": cluster.kubeconfig.read_text(),
        }
        made = Project(tmp_path_factory.mktemp("stack"), settings, request.param)
        made.up()
        yield made
    for kind, namespace, name in (
        (NODE, None, PI),
        (NAMESPACE, None, SERVICES),
        (CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS),
    ):
        if (held := api.get(kind, namespace, name)) is not None:
            api.delete(kind, namespace, name, uid=held["metadata"]["uid"])


def told(steps: list[dict[str, Any]]) -> list[str]:
    """Operation and name of each step."""
    return [f"{step['op']} {step['urn'].rpartition('::')[2]}" for step in steps]


def test_a_second_run_changes_nothing(project: Project) -> None:
    assert project.steps() == []
    assert told(project.steps("--refresh")) == []


def test_another_address_of_the_api_server_replaces_nothing(project: Project, cluster: StandaloneCluster) -> None:
    here = cluster.kubeconfig.read_text()
    project.set("kubernetes:kubeconfig", here.replace("127.0.0.1", "localhost"))
    try:
        assert set(told(project.steps())) <= {"update cluster", "update pinion"}, "the two providers at most"
    finally:
        project.set("kubernetes:kubeconfig", here)


def test_a_wrong_port_is_one_error_with_the_address(project: Project, cluster: StandaloneCluster) -> None:
    here = cluster.kubeconfig.read_text()
    project.set("kubernetes:kubeconfig", here.replace(cluster.server, "https://127.0.0.1:1"))
    try:
        done = project.attempt("pulumi", "preview", "--stack", SITE)
    finally:
        project.set("kubernetes:kubeconfig", here)
    text = done.stdout.partition("Diagnostics:")[2]
    assert done.returncode != 0
    assert text.count("https://127.0.0.1:1") == 1, done.stdout
    assert "the cluster cannot be asked" in text
    assert "replace" not in done.stdout


@pytest.mark.slow
def test_an_edited_chart_is_deployed_though_its_version_is_the_same(
    project: Project, cluster: StandaloneCluster, api: ClusterClient
) -> None:
    notes = project.root / "charts/hello/templates/service.yaml"
    before = notes.read_text()
    notes.write_text(before.replace("metadata:", "metadata:\n  annotations: {edited: 'yes'}", 1))
    try:
        (step,) = project.steps()
        assert told([step]) == [f"update {RELEASE}"]
        assert list(step["detailedDiff"]) == ["digest"]
        project.up()
        service = api.get(kind_of("Service"), SERVICES, RELEASE)
        assert service is not None
        assert service["metadata"]["annotations"]["edited"] == "yes"
    finally:
        notes.write_text(before)
        project.up()


def test_a_preview_tells_what_changed_and_is_ours_and_no_heartbeats(project: Project, api: ClusterClient) -> None:
    change_by_hand(api, NODE, None, PI, {"metadata": {"labels": {"edge": None, "theirs": "1"}}})
    api.merge(NODE, None, f"{PI}/status", {"status": {"conditions": [HEARTBEAT]}}, manager="kubelet")
    try:
        text = project.run("pulumi", "preview", "--stack", SITE, "--refresh", "--diff", "--color", "never")
        assert "edge" in text
        for noise in ("lastHeartbeatTime", "KubeletReady"):
            assert noise not in text
        changed = [line for line in text.splitlines() if line.lstrip().startswith(("+ ", "- ", "~ "))]
        assert len(changed) < 10, text
        assert told(project.steps("--refresh")) == [f"update {PI}"]
    finally:
        project.up()
        change_by_hand(api, NODE, None, PI, {"metadata": {"labels": {"theirs": None}}})


@pytest.mark.slow
def test_a_scaled_deployment_of_a_chart_is_seen_and_put_back(project: Project, api: ClusterClient) -> None:
    change_by_hand(api, DEPLOYMENT, SERVICES, RELEASE, {"spec": {"replicas": 7}})
    (step,) = project.steps("--refresh")
    assert told([step]) == [f"update {RELEASE}"]
    assert list(step["detailedDiff"]) == ["drift"]
    (found,) = drift(api, helm_records(api, SERVICES, RELEASE)[-1].manifest, SERVICES)
    assert found.startswith(f"Deployment {RELEASE}: spec.replicas is 7, the chart says ")
    project.up()
    assert drift(api, helm_records(api, SERVICES, RELEASE)[-1].manifest, SERVICES) == []


def lose(project: Project) -> None:
    """The stack's state is gone; the cluster is not."""
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", SITE))
    kept = [one for one in exported["deployment"]["resources"] if not _is_of_the_cluster(one["type"])]
    exported["deployment"]["resources"] = kept
    project.run("pulumi", "stack", "import", "--stack", SITE, "--force", given=json.dumps(exported))


def _is_of_the_cluster(kind: str) -> bool:
    return kind.startswith(
        (
            "kubernetes:",
            "pulumi:providers:kubernetes",
            "pinion:cluster:",
            "pinion:infra:GpuCluster",
            "pinion:infra:Edge",
        )
    )


def test_what_exists_and_is_this_sites_is_adopted_and_a_strangers_is_not(
    project: Project, cluster: StandaloneCluster, api: ClusterClient
) -> None:
    before = api.get(NAMESPACE, None, SERVICES)
    assert before is not None
    lose(project)
    account = f"{SERVICES}-workload"
    change_by_hand(api, ACCOUNT, SERVICES, account, {"metadata": {"labels": {SITE_LABEL: "another"}}})
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        refused = project.attempt("pulumi", *command, "--stack", SITE)
        assert refused.returncode != 0
        assert (
            f"ServiceAccount {SERVICES}/{account} exists already and is site another's"
            in refused.stdout + refused.stderr
        )
    change_by_hand(api, ACCOUNT, SERVICES, account, {"metadata": {"labels": {SITE_LABEL: SITE}}})
    project.up()
    after = api.get(NAMESPACE, None, SERVICES)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [record.status for record in helm_records(api, SERVICES, RELEASE)].count("deployed") == 1
    assert told(project.steps("--refresh")) == []


@pytest.mark.slow
def test_what_a_stack_stated_before_it_lost_its_state_still_goes(project: Project, api: ClusterClient) -> None:
    """Each owner of a field keeps it; so the owner is the same for all runs of a site."""
    lose(project)
    project.up()
    site = project.root / "inventories" / SITE / "site.yml"
    stated = site.read_text()
    project.decommission(PI)
    try:
        project.up()
        members = api.get(CONFIG_MAP, MEMBERS_NAMESPACE, MEMBERS)
        assert members is not None
        assert PI not in members["data"]
    finally:
        site.write_text(stated)
        project.up()


@pytest.mark.slow
def test_what_was_somebody_elses_and_was_taken_over_stays_when_the_stack_goes(
    project: Project, cluster: StandaloneCluster, api: ClusterClient
) -> None:
    project.run("pulumi", "destroy", "--stack", SITE, "--yes")
    assert api.get(NAMESPACE, None, SERVICES) is None
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVICES}}
    api.apply(NAMESPACE, theirs, manager="somebody")
    refused = project.attempt("pulumi", "up", "--yes", "--skip-preview", "--stack", SITE)
    assert f"Namespace {SERVICES} exists already and is not this site's" in refused.stdout + refused.stderr
    project.run("pulumi", "config", "set", "--stack", SITE, "pinion:adopt", "true")
    project.up()
    project.run("pulumi", "config", "rm", "--stack", SITE, "pinion:adopt")
    project.up()
    helm = [str(cache_root() / "bin" / "helm"), "--kubeconfig", str(cluster.kubeconfig), "--namespace", SERVICES]
    subprocess.run([*helm, "uninstall", RELEASE], check=True, capture_output=True)
    # a release that somebody has uninstalled is no hindrance, without a refresh
    project.run("pulumi", "destroy", "--stack", SITE, "--yes")
    reader = ClusterReader(cluster.kubeconfig)
    assert reader.get("Namespace", SERVICES) is not None
    assert reader.get("ServiceAccount", f"{SERVICES}-workload", SERVICES) is None
    assert reader.get("ConfigMap", MEMBERS, MEMBERS_NAMESPACE) is None
    project.up()


@pytest.mark.skipif(official_plugin() is None, reason=NO_OFFICIAL)
def test_the_official_plugin_takes_over_what_the_stand_in_made(project: Project) -> None:
    project.use(STAND_IN)
    project.up()
    project.use(OFFICIAL)
    try:
        assert not [step for step in told(project.steps()) if "replace" in step or "delete" in step or "create" in step]
        project.up()
        assert told(project.steps("--refresh")) == []
    finally:
        project.use(STAND_IN)
