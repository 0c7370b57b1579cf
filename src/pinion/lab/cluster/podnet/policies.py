"""From NetworkPolicies to nftables rules for the pods of one node. Pure.

What the rules mean is Kubernetes' own: a pod that no policy selects for a direction is open in it; one that is selected takes what any
of those policies allows, and nothing else. Answers to what was allowed pass. What the node itself sends to its own pods (the kubelet's
probes) never crosses the forward hook, so it always passes, as Kubernetes wants it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: An object of the API, as JSON.
Json = Mapping[str, Any]
TABLE = "podnet"
_ENDED = {"Succeeded", "Failed"}


@dataclass(frozen=True)
class Pod:
    """A pod with an address. *ports*: container ports by name."""

    namespace: str
    name: str
    address: str
    node: str
    labels: Mapping[str, str]
    ports: Mapping[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """All that policies can speak of. *namespaces* are their labels by name."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]
    policies: Sequence[Json]


def pod_of(item: Json) -> Pod | None:
    """A pod from an object of the API; None when it has no address of its own (not yet, not any more, or the node's)."""
    metadata, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    address = status.get("podIP")
    if not address or spec.get("hostNetwork") or status.get("phase") in _ENDED:
        return None
    ports = {
        port["name"]: (port.get("protocol", "TCP"), port["containerPort"])
        for container in spec.get("containers", ())
        for port in container.get("ports", ())
        if port.get("name")
    }
    return Pod(
        metadata["namespace"], metadata["name"], address, spec.get("nodeName", ""), metadata.get("labels") or {}, ports
    )


def ruleset(cluster: Cluster, node: str, pod_prefix: str, own_prefix: str | None) -> str:
    """The whole nftables table of *node* as text, which replaces the one before in one transaction.

    *own_prefix* is the node's part of *pod_prefix*: what its pods send to anywhere else carries the node's address.
    """
    forward: list[str] = []
    chains: list[str] = []
    local = sorted((pod for pod in cluster.pods if pod.node == node), key=lambda pod: (pod.namespace, pod.name))
    for number, pod in enumerate(local):
        for direction, match in (("Egress", "saddr"), ("Ingress", "daddr")):
            chosen = [policy for policy in cluster.policies if _selects(policy, pod, direction)]
            if not chosen:
                continue
            chain = f"{direction.lower()}-{number}"
            forward.append(f"ip {match} {pod.address} jump {chain}")
            rules = sorted({rule for policy in chosen for rule in _allowed(cluster, policy, pod, direction)})
            chains += ["", f"\tchain {chain} {{ # {pod.namespace}/{pod.name}", *(f"\t\t{rule}" for rule in rules)]
            chains += ["\t\tcounter drop", "\t}"]
    masquerade = [f"ip saddr {own_prefix} ip daddr != {pod_prefix} masquerade"] if own_prefix else []
    return "\n".join([
        f"add table inet {TABLE}",
        f"delete table inet {TABLE}",
        f"table inet {TABLE} {{",
        "\tchain forward {",
        "\t\ttype filter hook forward priority filter; policy accept;",
        "\t\tct state established,related accept",
        *(f"\t\t{rule}" for rule in forward),
        "\t}",
        *chains,
        "",
        "\tchain postrouting {",
        "\t\ttype nat hook postrouting priority srcnat; policy accept;",
        *(f"\t\t{rule}" for rule in masquerade),
        "\t}",
        "}",
        "",
    ])  # fmt: skip


def _selects(policy: Json, pod: Pod, direction: str) -> bool:
    """Whether *policy* rules over *pod* in *direction*."""
    spec = policy["spec"]
    kinds = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    return (
        direction in kinds
        and policy["metadata"]["namespace"] == pod.namespace
        and matches(spec.get("podSelector") or {}, pod.labels)
    )


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes *labels*; an empty one takes everything. An operator that nobody knows takes nothing."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], expression.get("values") or ()
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held.get(expression["operator"], False):
            return False
    return True


def _allowed(cluster: Cluster, policy: Json, pod: Pod, direction: str) -> Iterator[str]:
    """The rules of one policy for one pod, each ending in ``return``."""
    field_name, peers_name, match = (
        ("ingress", "from", "saddr") if direction == "Ingress" else ("egress", "to", "daddr")
    )
    for rule in policy["spec"].get(field_name) or ():
        peers = rule.get(peers_name) or []
        others = [other for other in cluster.pods if any(_is_peer(cluster, policy, peer, other) for peer in peers)]
        # names of ports are the destination's
        if direction == "Ingress":
            groups: Iterable[tuple[list[str], Pod | None]] = [([other.address for other in others], pod)]
        else:
            groups = [([other.address], other) for other in others]
        for addresses, destination in groups:
            if addresses:
                where = f"ip {match} {{ {', '.join(sorted(addresses))} }} "
                yield from (f"{where}{ports}return" for ports in _ports(rule, destination))
        for block in (peer["ipBlock"] for peer in peers if "ipBlock" in peer):
            where = _block(block, match)
            if where:
                yield from (f"{where}{ports}return" for ports in _ports(rule, pod if direction == "Ingress" else None))
        if not peers:
            yield from (f"{ports}return" for ports in _ports(rule, pod if direction == "Ingress" else None))


def _is_peer(cluster: Cluster, policy: Json, peer: Json, other: Pod) -> bool:
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"] or {}, cluster.namespaces.get(other.namespace, {})):
            return False
    elif other.namespace != policy["metadata"]["namespace"]:
        return False
    return matches(peer.get("podSelector") or {}, other.labels)


def _block(block: Json, match: str) -> str:
    """Addresses of an ``ipBlock``; "" for one of another family."""
    if ipaddress.ip_network(block["cidr"], strict=False).version != 4:
        return ""
    without = sorted(block.get("except") or ())
    return f"ip {match} {block['cidr']} " + (f"ip {match} != {{ {', '.join(without)} }} " if without else "")


def _ports(rule: Json, destination: Pod | None) -> Iterator[str]:
    """Matches for the ports of *rule*; "" when it names none. A name that the destination does not have allows nothing."""
    stated = rule.get("ports")
    if not stated:
        yield ""
        return
    for port in stated:
        protocol = port.get("protocol", "TCP")
        number = port.get("port")
        if number is None:
            yield f"meta l4proto {protocol.lower()} "
            continue
        if isinstance(number, str):
            known = destination.ports.get(number) if destination is not None else None
            if known is None or known[0] != protocol:
                continue
            number = known[1]
        span = f"{number}-{port['endPort']}" if "endPort" in port else str(number)
        yield f"{protocol.lower()} dport {span} "
