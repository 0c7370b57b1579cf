"""Who talks to whom: the table follows from the site, is compact, and names what the lab really uses."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.sites import DC, LAB, planned

from pinion.lab.cluster.podnet.routes import PORT as LAB_POD_NETWORK
from pinion.plan.flows import POD_NETWORK, collapse, ending_at, lets, prefixes_of
from pinion.plan.model import DeviceKind, FlowPlan, Plan
from pinion.site.rules.hosts import PLANNED_FLOWS

CONCERNS: dict[str, dict[str, Any]] = {
    "base": {
        "name_servers": ["192.0.2.53", "10.77.100.10"],
        "package_sources": {
            "debian": {"uri": "http://mgmt-1:3142/debian", "suites": ["trixie"]},
            "security": {"uri": "https://10.77.100.10/debian-security", "suites": ["trixie-security"]},
            "other": {"uri": "https://packages.example.org/debian", "suites": ["trixie"]},
        },
    },
    "node_metrics": {},
    "firewall": {},
    "site_ca": {},
    "gpu_driver": {"version": "580.95.05"},
    "edge_runtime": {},
    "model_store": {"key": yaml.safe_load(DC.read_text())["concerns"]["model_store"]["key"]},
}
SOURCE = yaml.safe_load(DC.read_text())["models"]["tiny"]["edge"]["source"]


def models(*urls: str) -> dict[str, object]:
    """Models that are had from *urls*."""
    return {
        f"model-{number}": {"edge": {"artefact": f"artefact-{number}", "source": SOURCE | {"url": url}}}
        for number, url in enumerate(urls)
    }


def table(plan: Plan) -> dict[str, FlowPlan]:
    """The flows by name; no name stands twice."""
    found = {flow.name: flow for flow in plan.flows}
    assert len(found) == len(plan.flows)
    return found


@pytest.fixture(scope="module")
def lab() -> dict[str, FlowPlan]:
    return table(planned(LAB, concerns=CONCERNS, models=models("http://mgmt-1:8090/tiny.gguf")))


def test_the_names_that_a_site_may_not_take_are_those_of_the_plan(lab: dict[str, FlowPlan]) -> None:
    assert set(lab) == PLANNED_FLOWS


def test_operators_reach_every_host_and_pis_reach_none(lab: dict[str, FlowPlan]) -> None:
    ssh = lab["ssh"]
    assert ssh.kinds == (DeviceKind.MANAGEMENT_HOST, DeviceKind.PI, DeviceKind.GPU_SERVER)
    assert ssh.ports == (22,)
    assert lets(ssh, "10.77.100.10")  # the management host's leg on the fabric, where the operator works from
    assert lets(ssh, "10.77.99.200")
    assert not lets(ssh, "10.77.101.10")
    assert not lets(ssh, "10.77.100.16")


def test_the_cluster_has_its_flows_and_no_more(lab: dict[str, FlowPlan]) -> None:
    assert lab["api-server"].hosts == ("mgmt-1",)
    assert lets(lab["api-server"], "10.77.101.17")  # the group has eight ports, of which four are used
    assert not lets(lab["api-server"], "10.77.101.18")
    assert lab["kubelet"].kinds == (DeviceKind.PI, DeviceKind.GPU_SERVER)
    assert lets(lab["kubelet"], "10.77.100.10")
    assert not lets(lab["kubelet"], "10.77.101.10")
    assert lab["pod-network"].protocol == "udp"
    assert lab["pod-network"].ports == (POD_NETWORK,) == (LAB_POD_NETWORK,)
    without = table(planned(LAB, kubernetes=None, services=None))
    assert not {"api-server", "kubelet", "pod-network"} & set(without)
    servers_only = table(planned(LAB, kubernetes={"control_plane": "mgmt-1", "pis_join": False}))
    assert servers_only["kubelet"].kinds == (DeviceKind.GPU_SERVER,)


def test_only_rdma_networks_speak_roce(lab: dict[str, FlowPlan]) -> None:
    assert lab["roce"].sources == ("10.77.102.0/24",)
    assert lab["roce"].kinds == (DeviceKind.GPU_SERVER,)
    others = [flow for name, flow in lab.items() if name != "roce"]
    assert not any(lets(flow, "10.77.102.16") for flow in others)


@pytest.mark.parametrize(
    ("urls", "ends"),
    [
        (["http://mgmt-1/a.gguf"], (("mgmt-1",), (80,))),
        (["https://mgmt-1/a.gguf", "https://mgmt-1/b.gguf"], (("mgmt-1",), (443,))),
        (["http://10.77.100.10:8090/a.gguf", "http://mgmt-1:8091/b.gguf"], (("mgmt-1",), (8090, 8091))),
        (["http://10.77.100.99:8090/a.gguf", "https://models.example.org/b.gguf", "http://tor-1/c.gguf"], None),
    ],
)
def test_pis_may_fetch_models_from_hosts_of_the_site(
    urls: list[str], ends: tuple[tuple[str, ...], tuple[int, ...]] | None
) -> None:
    stated = {key: CONCERNS[key] for key in ("model_store",)}
    flow = table(planned(LAB, concerns=stated, models=models(*urls))).get("models")
    assert (None if flow is None else (flow.hosts, flow.ports)) == ends
    if flow is not None:
        assert lets(flow, "10.77.101.10")
        assert not lets(flow, "10.77.100.16")


def test_hosts_reach_name_servers_and_archives_that_are_the_sites_own(lab: dict[str, FlowPlan]) -> None:
    ends = {name: (lab[name].hosts, lab[name].protocol, lab[name].ports) for name in ("names", "names-tcp", "packages")}
    assert ends == {
        "names": (("mgmt-1",), "udp", (53,)),
        "names-tcp": (("mgmt-1",), "tcp", (53,)),
        "packages": (("mgmt-1",), "tcp", (3142, 443)),
    }
    for name in ends:
        assert lets(lab[name], "10.77.101.10")
        assert not lets(lab[name], "10.77.102.16")
    elsewhere = {
        "base": {
            "name_servers": ["192.0.2.53"],
            "package_sources": {"other": CONCERNS["base"]["package_sources"]["other"]},
        }
    }
    assert not {"names", "names-tcp", "packages"} & set(table(planned(LAB, concerns=elsewhere)))


@given(st.integers(0, 2**32 - 1), st.integers(0, 4096))
def test_the_prefixes_of_a_span_are_the_span(first: int, more: int) -> None:
    span = f"{IPv4Address(first)}-{IPv4Address(min(first + more, 2**32 - 1))}"
    assert collapse(prefixes_of(span)) == collapse([span])


def test_what_concerns_listen_for_is_there_with_the_concern() -> None:
    assert not {"time", "node-metrics"} & set(table(planned(LAB, concerns={})))
    metrics = table(planned(LAB, concerns={"node_metrics": {}}))["node-metrics"]
    assert lets(metrics, "10.77.100.10")
    assert not lets(metrics, "10.77.101.10")
    # with servers of their own the hosts do not ask the management host
    assert "time" not in table(planned(LAB, concerns={"base": {"time_servers": ["192.0.2.1"]}}))


def test_a_site_without_management_hosts_is_operated_from_where_it_says() -> None:
    stated = {"firewall": {"operators": ["192.168.100.0/24"]}, "node_metrics": {}}
    flows = table(planned(DC, concerns=stated))
    assert flows["ssh"].sources == ("192.168.99.0-192.168.100.255",)
    assert flows["node-metrics"].sources == flows["ssh"].sources
    assert "netbox" not in flows


def test_a_stated_flow_names_networks_prefixes_groups_and_hosts() -> None:
    proxy = {
        "sources": ["edge-inference", "192.0.2.0/24"],
        "hosts": ["pi", "nv-1"],
        "ports": [3142, 3143],
        "why": "apt",
    }
    flow = table(planned(LAB, concerns={"firewall": {"allow": {"mirror": proxy}}}))["mirror"]
    assert flow.sources == ("10.77.101.0/24", "192.0.2.0/24")
    assert flow.hosts == ("pi", "nv-1")
    assert (flow.protocol, flow.ports, flow.why) == ("tcp", (3142, 3143), "apt")
    assert flow.origin == "concerns.firewall.allow.mirror"


def test_each_host_has_what_ends_there() -> None:
    mirror = {"sources": ["control"], "hosts": ["pi", "mgmt-1"], "ports": [3142]}
    plan = planned(LAB, concerns=CONCERNS | {"firewall": {"allow": {"mirror": mirror}}})

    def ending(name: str) -> list[str]:
        return [flow.name for flow in ending_at(plan.flows, plan.device(name))]

    assert ending("pi-01") == ["ssh", "kubelet", "pod-network", "node-metrics", "edge-runtime", "mirror"]
    assert ending("nv-1") == ["ssh", "kubelet", "pod-network", "roce", "node-metrics", "gpu-metrics"]
    assert ending("mgmt-1")[-1] == "mirror"
    assert ending("tor-1") == ["switch-ssh"]


def test_a_large_site_has_a_small_table() -> None:
    pis = {
        "pi": {
            "numbers": "1-600",
            "board": "raspberry-pi-5-8gb",
            "rack": "lab-rack",
            "network": "edge-inference",
            "range": "pis",
            "ports": "tor-1 Ethernet1-600",
        }
    }
    networks = {
        "management": {"vid": 99, "purpose": "management", "prefix": "10.77.99.0/24"},
        "control": {"vid": 100, "purpose": "control", "prefix": "10.77.100.0/24"},
        "edge-inference": {
            "vid": 101,
            "purpose": "edge",
            "prefix": "10.64.0.0/16",
            "ranges": {"pis": "10.64.0.10-10.64.9.255"},
        },
        "gpu-rdma": {"vid": 102, "purpose": "rdma", "prefix": "10.77.102.0/24", "mtu": 9000},
    }
    flows = table(planned(LAB, pis=pis, networks=networks))
    assert flows["api-server"].sources == ("10.64.0.10-10.64.2.97", "10.77.100.16")


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 40)), min_size=1, max_size=12))
def test_collapse_keeps_exactly_what_it_was_given(spans: list[tuple[int, int]]) -> None:
    ends = [(first, min(first + length, 255)) for first, length in spans]
    written = collapse(
        f"192.0.2.{first}-192.0.2.{last}" if first != last else f"192.0.2.{first}" for first, last in ends
    )
    flow = FlowPlan(
        name="x", peers="", sources=written, protocol="tcp", ports=(1,), why="", origin=""
    )  # fmt: skip
    for number in range(256):
        assert lets(flow, f"192.0.2.{number}") == any(first <= number <= last for first, last in ends)
    again = collapse(written)
    assert again == written


def test_one_more_pi_changes_no_table() -> None:
    five = {"pi": yaml.safe_load(LAB.read_text())["pis"]["pi"] | {"numbers": "1-5"}}
    assert planned(LAB, concerns=CONCERNS, pis=five).flows == planned(LAB, concerns=CONCERNS).flows


def test_both_families_of_a_group_are_kept() -> None:
    networks = yaml.safe_load(LAB.read_text())["networks"]
    del networks["edge-inference"]["prefix"]
    networks["edge-inference"]["prefixes"] = ["10.77.101.0/24", "fd00:101::/64"]
    flow = table(planned(LAB, networks=networks))["api-server"]
    assert flow.sources == ("10.77.100.16", "10.77.101.10-10.77.101.17", "fd00:101::a-fd00:101::11")


def test_collapse_keeps_families_apart() -> None:
    assert collapse(["2001:db8::/65", "2001:db8:0:0:8000::/65", "10.0.0.1", "10.0.0.0"]) == (
        "10.0.0.0/31",
        "2001:db8::/64",
    )
