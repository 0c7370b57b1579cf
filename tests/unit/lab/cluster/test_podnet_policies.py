"""NetworkPolicies as nftables rules: what each case of the API's own description allows, judged by a small reader of the rules."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
from typing import Any

import pytest

from pinion.lab.cluster.podnet.policies import Cluster, Pod, matches, pod_of, ruleset

NODE, PODS = "n1", "10.244.0.0/16"
WEB = Pod("shop", "web", "10.244.0.2", NODE, {"app": "web"}, {"http": ("TCP", 8080), "dns": ("UDP", 53)})
CLIENT = Pod("shop", "client", "10.244.1.2", "n2", {"app": "client"})
STRANGER = Pod("other", "stranger", "10.244.1.3", "n2", {"app": "client"})
NAMESPACES = {"shop": {"team": "a"}, "other": {"team": "b"}}


def policy(spec: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
    """A NetworkPolicy."""
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}


def rules(*policies: dict[str, Any]) -> str:
    """The table of node n1."""
    return ruleset(Cluster([WEB, CLIENT, STRANGER], NAMESPACES, policies), NODE, PODS, "10.244.0.0/24")


def passes(text: str, source: str, destination: str, port: int = 8080, protocol: str = "tcp") -> bool:
    """Whether the first packet of a connection passes the table, read rule by rule."""
    packet = {"saddr": source, "daddr": destination}
    chains = {name: body.splitlines() for name, body in re.findall(r"chain (\S+) \{(.*?)\n\t\}", text, re.DOTALL)}
    for rule in chains["forward"]:
        jump = re.fullmatch(r"\s*ip (saddr|daddr) (\S+) jump (\S+)", rule)
        if jump and packet[jump[1]] == jump[2] and not _chain(chains[jump[3]], packet, port, protocol):
            return False
    return True


def _chain(lines: list[str], packet: dict[str, str], port: int, protocol: str) -> bool:
    return any(line.strip().endswith("return") and _hit(line, packet, port, protocol) for line in lines)


def _hit(rule: str, packet: dict[str, str], port: int, protocol: str) -> bool:
    for end, operator, text in re.findall(r"ip (saddr|daddr) (!= )?(\{[^}]*\}|\S+)", rule):
        networks = [ipaddress.ip_network(part.strip()) for part in text.strip("{} ").split(",")]
        if any(ipaddress.ip_address(packet[end]) in network for network in networks) == bool(operator):
            return False
    for kind, low, high in re.findall(r"(tcp|udp|sctp) dport (\d+)(?:-(\d+))?", rule):
        if kind != protocol or not int(low) <= port <= int(high or low):
            return False
    return all(kind == protocol for kind in re.findall(r"meta l4proto (\w+)", rule))


def test_open_without_policies() -> None:
    assert passes(rules(), CLIENT.address, WEB.address)


def test_default_deny_closes_both_ways() -> None:
    text = rules(policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
    assert not passes(text, CLIENT.address, WEB.address)
    assert not passes(text, WEB.address, CLIENT.address)
    assert "ct state established,related accept" in text


def test_a_policy_without_types_rules_over_ingress_and_over_egress_when_it_speaks_of_it() -> None:
    assert passes(rules(policy({"podSelector": {}})), WEB.address, CLIENT.address)
    assert not passes(
        rules(policy({"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]})), WEB.address, CLIENT.address
    )


def test_policies_of_other_namespaces_do_not_matter() -> None:
    assert passes(rules(policy({"podSelector": {}}, "other")), CLIENT.address, WEB.address)


@pytest.mark.parametrize(
    ("rule", "client", "stranger", "outside"),
    [
        ({}, True, True, True),
        ({"from": [{"podSelector": {}}]}, True, False, False),
        ({"from": [{"podSelector": {"matchLabels": {"app": "nobody"}}}]}, False, False, False),
        ({"from": [{"namespaceSelector": {}}]}, True, True, False),
        ({"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}]}, False, True, False),
        ({"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}]}, False, False, False),
        ({"from": [{"ipBlock": {"cidr": "10.77.0.0/16"}}]}, False, False, True),
        ({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.77.0.0/16"]}}]}, True, True, False),
        ({"from": [{"ipBlock": {"cidr": "fd00::/8"}}]}, False, False, False),
        ({"ports": [{"port": 8080}]}, True, True, True),
        ({"ports": [{"port": 80}]}, False, False, False),
        ({"ports": [{"port": "http"}]}, True, True, True),
        ({"ports": [{"port": "nosuch"}]}, False, False, False),
        ({"ports": [{"port": 8080, "protocol": "UDP"}]}, False, False, False),
        ({"ports": [{"port": 8000, "endPort": 8090}]}, True, True, True),
        ({"ports": [{"protocol": "TCP"}]}, True, True, True),
        ({"from": [{"podSelector": {}}], "ports": [{"port": 80}, {"port": 8080}]}, True, False, False),
    ],
)
def test_ingress(rule: dict[str, Any], client: bool, stranger: bool, outside: bool) -> None:
    text = rules(policy({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [rule]}))
    sources = (CLIENT.address, STRANGER.address, "10.77.100.10")
    assert tuple(passes(text, source, WEB.address) for source in sources) == (client, stranger, outside)


def test_egress_goes_by_the_destination_and_its_names_of_ports() -> None:
    near = Pod("shop", "near", "10.244.0.3", NODE, {"app": "near"}, {"http": ("TCP", 9090)})
    spec = {
        "podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}],
    }
    text = ruleset(Cluster([WEB, near, CLIENT], NAMESPACES, [policy(spec)]), NODE, PODS, None)
    assert passes(text, WEB.address, near.address, 9090)
    assert not passes(text, WEB.address, near.address, 8080)
    assert not passes(text, WEB.address, CLIENT.address, 9090)


def test_two_policies_allow_what_either_allows() -> None:
    deny = policy({"podSelector": {}, "policyTypes": ["Ingress"]})
    allow = policy({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"ports": [{"port": 8080}]}]})
    assert passes(rules(deny, allow), CLIENT.address, WEB.address)
    assert not passes(rules(deny, allow), CLIENT.address, WEB.address, 22)


def test_only_pods_of_the_node_have_rules() -> None:
    text = rules(policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))
    assert f"daddr {WEB.address} jump" in text
    assert f"daddr {CLIENT.address} jump" not in text


@pytest.mark.parametrize(
    ("expression", "taken"),
    [
        ({"key": "app", "operator": "In", "values": ["web"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, False),
        ({"key": "none", "operator": "NotIn", "values": ["web"]}, True),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "app", "operator": "Unheard"}, False),
    ],
)
def test_label_expressions(expression: dict[str, Any], taken: bool) -> None:
    assert matches({"matchExpressions": [expression]}, WEB.labels) is taken


def test_pods_without_an_address_of_their_own_are_left_out() -> None:
    item: dict[str, Any] = {
        "metadata": {"namespace": "a", "name": "b", "labels": {"c": "d"}},
        "spec": {"nodeName": "n", "containers": [{"ports": [{"name": "http", "containerPort": 1}]}]},
        "status": {"podIP": "10.244.0.9", "phase": "Running"},
    }
    assert pod_of(item) == Pod("a", "b", "10.244.0.9", "n", {"c": "d"}, {"http": ("TCP", 1)})
    for part, change in (
        ("spec", {"hostNetwork": True}),
        ("status", {"podIP": None}),
        ("status", {"phase": "Succeeded"}),
    ):
        assert pod_of({**item, part: {**item[part], **change}}) is None


@pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed")
def test_nft_takes_what_we_write() -> None:
    text = rules(
        policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
        policy({
            "podSelector": {},
            "ingress": [
                {"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16"]}}],
                 "ports": [{"port": 80, "endPort": 90}, {"port": "dns", "protocol": "UDP"}, {"protocol": "SCTP"}]},
            ],
        }),
    )  # fmt: skip
    done = subprocess.run(
        ["unshare", "--net", "--map-root-user", "nft", "--file", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
