"""What a change of the Kubernetes plugin's settings means for everything that it has made: the official plugin's rules, in the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from doubles.plugin_engine import Client, started

from pinion.lab.cluster.standalone import StandaloneCluster
from pinion.provider.plugin import UNKNOWN
from pinion_kubernetes_stand_in.plugin import KubernetesPlugin


@pytest.fixture
def unconfigured() -> Iterator[Client]:
    """The stand-in before it is told anything."""
    with started(KubernetesPlugin()) as client:
        yield client


def test_another_address_replaces_everything_unless_the_cluster_has_a_name(
    unconfigured: Client, cluster: StandaloneCluster
) -> None:
    here = cluster.kubeconfig.read_text()
    elsewhere = here.replace(cluster.server, "https://127.0.0.1:1")
    diff = unconfigured.diff_config
    assert diff({"kubeconfig": here}, {"kubeconfig": elsewhere}) == {"kubeconfig": "UPDATE_REPLACE"}
    named, moved = ({"kubeconfig": text, "clusterIdentifier": "one"} for text in (here, elsewhere))
    assert diff(named, moved) == {"kubeconfig": "UPDATE"}
    assert diff(named, {**moved, "clusterIdentifier": "other"})["clusterIdentifier"] == "UPDATE_REPLACE"


def test_a_name_that_comes_replaces_nothing_where_the_address_stays(
    unconfigured: Client, cluster: StandaloneCluster
) -> None:
    before = {"kubeconfig": str(cluster.kubeconfig)}
    after = {"kubeconfig": cluster.kubeconfig.read_text(), "clusterIdentifier": "one"}
    assert unconfigured.diff_config(before, after) == {"clusterIdentifier": "ADD", "kubeconfig": "UPDATE"}
    unknown = unconfigured.diff_config(before, {"kubeconfig": UNKNOWN})
    assert unknown == {"kubeconfig": "UPDATE_REPLACE"}


def test_it_says_in_each_run_what_it_is(unconfigured: Client, cluster: StandaloneCluster) -> None:
    unconfigured.configure({"kubeconfig": str(cluster.kubeconfig)})
    assert "stand-in for pulumi-kubernetes" in unconfigured.engine.text("INFO")
