"""The pods' routes: direct where two nodes share a network, VXLAN where not."""

from __future__ import annotations

import json
from typing import Any

from pinion.lab.cluster.podnet.routes import (
    Hop,
    Node,
    hops,
    hub_address,
    hub_hop,
    link_mac,
    network_configuration,
    node_of,
)

NEAR = Node("nv-1", "10.77.100.16", "10.244.0.0/24")
FAR = Node("pi-01", "10.77.101.10", "10.244.1.0/24")


def test_direct_in_the_same_network_else_overlay() -> None:
    found = hops([FAR, NEAR, Node("pi-02", "10.77.101.11", None)], "mgmt-1", ["10.77.99.0/24", "10.77.100.0/24"])
    assert found == [
        Hop("10.244.0.0/24", "10.77.100.16", overlay=False),
        Hop("10.244.1.0/24", "10.77.101.10", overlay=True),
    ]
    assert [hop.gateway for hop in found] == ["10.77.100.16", "10.244.1.0"]


def test_no_route_to_oneself() -> None:
    assert hops([NEAR], "nv-1", []) == []


def test_hardware_addresses_are_fixed_local_and_distinct() -> None:
    macs = {link_mac(f"10.244.{number}.0/24") for number in range(256)}
    assert len(macs) == 256
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)  # locally administered, unicast
    assert link_mac("10.244.1.0/24") == "02:70:0a:f4:01:00"


def test_the_way_back_to_the_api_server() -> None:
    assert hub_address("10.244.0.0/16") == "10.244.255.254"
    assert hub_hop("10.244.0.0/16", "10.77.100.10", ["10.77.101.0/24"]) == Hop(
        "10.244.255.254/32", "10.77.100.10", overlay=True
    )
    assert hub_hop("10.244.0.0/16", "10.77.100.10", ["10.77.100.0/24"]) is None


def test_node_of_the_api() -> None:
    item: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {}, "status": {}}
    assert node_of(item) is None
    item["status"]["addresses"] = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}]
    assert node_of(item) == Node("n", "10.0.0.1", None)
    item["spec"]["podCIDR"] = "10.244.7.0/24"
    assert node_of(item) == Node("n", "10.0.0.1", "10.244.7.0/24")


def test_network_configuration_is_json_for_the_runtime() -> None:
    made = json.loads(json.dumps(network_configuration("10.244.7.0/24", 1450)))
    (plugin,) = made["plugins"]
    assert plugin["type"] == "ptp"
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.7.0/24"}]]
