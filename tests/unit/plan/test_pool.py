"""A model of the pool becomes a release: its configuration, its resources, its flows, and nothing where it could not be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinion.checks.claims import checks
from pinion.checks.model import InferenceProbe, PodsProbe
from pinion.plan import plan
from pinion.plan.concerns.model_store import NAME as STORE
from pinion.plan.model import Plan, ReleasePlan
from pinion.plan.pool import LAB_IMAGE, model_settings, pool_releases, serves_lab_image
from pinion.site.model import Site

REPOSITORY = Path(__file__).parents[3]
GOLDEN = Path(__file__).with_name("config.pbtxt")


def stated(**changes: Any) -> dict[str, Any]:
    """The lab's site, its one model's pool stated otherwise."""
    site: dict[str, Any] = yaml.safe_load((REPOSITORY / "inventories/lab/site.yml").read_text(encoding="utf-8"))
    site["models"]["pinion-tiny"]["pool"] |= changes
    return site


def planned(site: dict[str, Any]) -> Plan:
    return plan(Site.model_validate(site))


def firewall(made: Plan, name: str) -> str:
    """All that the firewall's concern places on host *name*."""
    (host,) = (host for host in made.hosts if host.name == name)
    return "".join(file.content for file in host.concerns["firewall"].files)


def released(site: dict[str, Any]) -> ReleasePlan:
    cluster = planned(site).cluster
    assert cluster is not None
    (release,) = pool_releases(cluster)
    return release


def test_its_configuration_is_the_one_that_triton_was_seen_to_read() -> None:
    batching = {"window": "2.5ms", "largest": 16, "preferred": [4, 8]}
    values: Any = released(stated(batching=batching, instances=2, threads=3)).values
    assert values["model"]["config"] == GOLDEN.read_text(encoding="utf-8")


def test_what_makes_no_batches_waits_for_none() -> None:
    values: Any = released(stated(batching={"largest": 1})).values
    assert "dynamic_batching" not in values["model"]["config"]
    assert "max_batch_size: 1\n" in values["model"]["config"]


def test_each_key_of_the_pool_is_obeyed() -> None:
    image = f"registry.example.org/triton@sha256:{'0' * 64}"
    release = released(stated(replicas=3, image=image, instances=2, threads=2, memory_mib=2048))
    values: Any = release.values
    assert values["replicas"] == 3
    assert values["image"] == {"reference": image}
    assert values["resources"] == {
        "requests": {"cpu": "1000m", "memory": "2048Mi"},
        "limits": {"cpu": "5", "memory": "2048Mi"},
    }
    assert (release.namespace, release.origin) == ("models", "models.pinion-tiny.pool")
    assert released(stated()).values["image"] == {"reference": LAB_IMAGE}


def test_only_the_labs_own_image_is_asked_of_the_lab() -> None:
    own, other = planned(stated()).cluster, planned(stated(image=f"registry.example.org/t@sha256:{'0' * 64}")).cluster
    assert own is not None
    assert other is not None
    assert serves_lab_image(own)
    assert not serves_lab_image(other)


def test_its_namespace_takes_no_pod_with_rights() -> None:
    cluster = planned(stated()).cluster
    assert cluster is not None
    (namespace,) = (namespace for namespace in cluster.namespaces if namespace.name == "models")
    assert (namespace.pod_security, namespace.default_deny) == ("restricted", True)


def test_pods_reach_the_models_source_and_nothing_else() -> None:
    policy: Any = released(stated()).values["networkPolicy"]
    assert policy["egress"] == [{"to": ["10.77.100.10/32"], "ports": [8090], "protocol": "TCP"}]
    site = stated()
    site["models"]["pinion-tiny"]["pool"]["source"]["url"] = "https://models.example.org/a.onnx"
    named: Any = released(site).values["networkPolicy"]
    assert [(rule["ports"], rule["protocol"]) for rule in named["egress"]] == [
        ([443], "TCP"),
        ([53], "UDP"),
        ([53], "TCP"),
    ]
    assert not any(flow.name == "pool-models" for flow in planned(site).flows)


def test_the_host_that_has_the_file_lets_the_gpu_servers_in() -> None:
    made = planned(stated())
    (flow,) = (flow for flow in made.flows if flow.name == "pool-models")
    assert (flow.hosts, flow.ports, flow.sources) == (("mgmt-1",), (8090,), ("10.77.100.16",))
    (rule,) = (line for line in firewall(made, "mgmt-1").splitlines() if '"pool-models:' in line)
    assert "saddr { 10.77.100.16 } tcp dport { 8090 }" in rule


def test_flows_to_pods_open_no_hosts_firewall() -> None:
    made = planned(stated())
    assert {flow.name for flow in made.flows if flow.releases} == {"pool", "pool-metrics"}
    assert "pool" not in firewall(made, "nv-1")


def test_a_key_alone_gives_pis_no_store() -> None:
    assert not any(STORE in host.concerns for host in planned(stated()).hosts)


@pytest.mark.parametrize("missing", ["concerns", "kubernetes"])
def test_what_cannot_be_served_is_not_planned(missing: str) -> None:
    """A rule of the site tells it (MODEL-016, MODEL-017)."""
    site = stated()
    del site[missing]
    if missing == "kubernetes":
        del site["services"]
    made = planned(site)
    assert made.cluster is None or pool_releases(made.cluster) == ()
    assert not any(flow.name.startswith("pool") for flow in made.flows)


def test_what_is_claimed_of_it() -> None:
    mine = {
        check.id.rpartition(".")[2]: check
        for check in checks(planned(stated()))
        if check.subject == "triton-pinion-tiny"
    }
    assert list(mine) == ["objects", "http", "pods", "digest", "answer", "latency"]
    assert isinstance(mine["pods"].probe, PodsProbe)
    assert mine["pods"].probe.nodes == ("nv-1",)
    ((_, facts),) = model_settings(released(stated())).items()
    assert mine["digest"].expected == facts["sha256"]
    latency = mine["latency"].probe
    assert isinstance(latency, InferenceProbe)
    assert (latency.within, mine["latency"].origin) == (5.0, "objectives.site.p95")
    without = stated()
    del without["objectives"]
    assert "services.triton-pinion-tiny.latency" not in {check.id for check in checks(planned(without))}


def test_settings_are_what_the_program_takes() -> None:
    values: Any = released(stated()).values
    told = json.loads(values["model"]["settings"])
    assert set(told) == {"folder", "budget", "key", "models"}
