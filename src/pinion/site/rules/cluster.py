"""The Kubernetes cluster and the services on it."""

from __future__ import annotations

import re
from pathlib import Path as FilePath

from pinion.site.errors import Path
from pinion.site.internet import Prefix
from pinion.site.internet import prefix as ip_network
from pinion.site.model import ClusterOwner, Kubernetes
from pinion.site.pool_models import CHART, NAMESPACE, pooled, release_name
from pinion.site.rules import free
from pinion.site.rules.facts import Facts
from pinion.site.rules.networks import is_special

#: kube-controller-manager gives every node a /24 (IPv4) or /64 (IPv6) of the pod prefix unless it is told otherwise.
NODE_PREFIX = {4: 24, 6: 64}
#: kube-apiserver's bitmap allocator takes no service prefix with more host bits than this.
SERVICE_HOST_BITS = 20
#: kube-apiserver takes no service prefix with fewer host bits than this (eight addresses).
LEAST_SERVICE_HOST_BITS = 3
#: kube-controller-manager divides no IPv6 prefix into more than two to this power (its constant clusterSubnetMaxDiff).
NODE_PREFIX_BITS = 16
#: Helm takes no longer name of a release; and one that is a Service's name too begins with a letter (RFC 1035).
RELEASE_NAME = re.compile(r"[a-z][a-z0-9-]{0,52}")
#: What Flux and Argo CD fetch from over a connection that says who is at its other end.
REPOSITORY_URL = re.compile(r"(?P<scheme>https|ssh)://((?P<user>[^\s@/]+)@)?[A-Za-z0-9.-]+(:\d{1,5})?/[^\s?#@]+")
#: Namespaces that Kubernetes keeps for itself.
RESERVED_NAMESPACES = ("default",)
RESERVED_START = "kube-"


def check(facts: Facts, charts: FilePath | None) -> None:
    """All rules about the cluster. *charts* is the folder that holds the charts; None where there is none to compare with."""
    stated = facts.site.kubernetes
    if stated is not None:
        where: Path = ("kubernetes", "control_plane")
        facts.known("K8S-001", where, stated.control_plane, "management_hosts", facts.site.management_hosts)
        _prefixes(facts, stated)
        _repository(facts, stated)
    elif facts.site.services and not facts.has(("kubernetes",)):
        host = next(iter(facts.site.management_hosts), None)
        facts.report.on_key("K8S-006", ("services",), host=host)
    for name, service in facts.site.services.items():
        path: Path = ("services", name)
        if not RELEASE_NAME.fullmatch(name):
            facts.report.on_key("K8S-016", path, name=name)
        if service.server is not None:
            facts.known("K8S-002", (*path, "server"), service.server, "gpu_servers", facts.site.gpu_servers)
        elif facts.lacks("gpu_servers"):
            facts.report.on_key("K8S-007", path, name=name)
        if service.namespace in RESERVED_NAMESPACES or service.namespace.startswith(RESERVED_START):
            facts.report.on("K8S-008", (*path, "namespace"), name=service.namespace)
        if pooled(facts.site) and service.namespace == NAMESPACE:
            facts.report.on("K8S-020", (*path, "namespace"), what="namespace", name=service.namespace)
        if name in map(release_name, pooled(facts.site)):
            facts.report.on_key("K8S-020", path, what="service", name=name)
        if service.chart == CHART:
            facts.report.on("K8S-020", (*path, "chart"), what="chart", name=service.chart)
        else:
            _chart(facts, (*path, "chart"), service.chart, charts)


def _repository(facts: Facts, stated: Kubernetes) -> None:
    """Where Flux or Argo CD finds the tree that it makes the cluster from."""
    if stated.repository is None:
        if stated.owner is not ClusterOwner.PULUMI and not facts.has(("kubernetes", "repository")):
            facts.report.on("K8S-017", ("kubernetes", "owner"), owner=stated.owner.value)
        return
    where: Path = ("kubernetes", "repository", "url")
    found = REPOSITORY_URL.fullmatch(stated.repository.url)
    if found is None:
        facts.report.on("K8S-018", where, url=stated.repository.url)
    elif ":" in (found["user"] or "") or (found["user"] and found["scheme"] == "https"):
        user = (found["user"] or "").partition(":")[0]
        whose = "" if found["scheme"] == "https" else f"{user}@"
        bare = f"{found['scheme']}://{whose}{stated.repository.url.partition('@')[2]}"
        facts.report.on("K8S-019", where, bare=bare)


def _chart(facts: Facts, path: Path, chart: str, charts: FilePath | None) -> None:
    if charts is None:
        return
    known = sorted(file.parent.name for file in charts.glob("*/Chart.yaml"))
    if chart not in known:
        facts.report.on("K8S-003", path, name=chart, hint=facts.report.hint(chart, known))


def _prefixes(facts: Facts, stated: Kubernetes) -> None:
    pods = _prefix(facts, ("kubernetes", "pod_prefix"), stated.pod_prefix)
    services = _prefix(facts, ("kubernetes", "service_prefix"), stated.service_prefix)
    for key, prefix in (("pod_prefix", pods), ("service_prefix", services)):
        if prefix is None:
            continue
        for subnet in facts.subnets.values():
            other = next((other for other in subnet.prefixes if _overlap(prefix, other)), None)
            if other is not None:
                said = f"{other} of network '{subnet.name}'"
                unused = free.cluster_prefix(facts, prefix.version)
                facts.report.on("K8S-005", ("kubernetes", key), prefix=prefix, other=said, free=unused)
                break
    if pods is not None and services is not None and _overlap(pods, services):
        unused = free.cluster_prefix(facts, services.version)
        said = f"the pod prefix {pods}"
        facts.report.on("K8S-005", ("kubernetes", "service_prefix"), prefix=services, other=said, free=unused)
    if services is not None and services.max_prefixlen - services.prefixlen > SERVICE_HOST_BITS:
        longest = services.max_prefixlen - SERVICE_HOST_BITS
        shorter = f"{services.network_address}/{longest}"
        facts.report.on("K8S-009", ("kubernetes", "service_prefix"), prefix=services, longest=longest, shorter=shorter)
    if services is not None and services.max_prefixlen - services.prefixlen < LEAST_SERVICE_HOST_BITS:
        shortest = services.max_prefixlen - LEAST_SERVICE_HOST_BITS
        unused = free.cluster_prefix(facts, services.version)
        facts.report.on("K8S-012", ("kubernetes", "service_prefix"), prefix=services, shortest=shortest, free=unused)
    if pods is not None and services is not None and pods.version != services.version:
        where = ("kubernetes", "service_prefix")
        where = where if facts.has(where) else ("kubernetes", "pod_prefix")
        unused = free.cluster_prefix(facts, pods.version if where[1] == "service_prefix" else services.version)
        facts.report.on("K8S-013", where, services=services, pods=pods, free=unused)
    elif services is not None and (own := _api_family(facts, stated)) is not None and own != services.version:
        where = ("kubernetes", "service_prefix")
        unused = free.cluster_prefix(facts, own) if pods is not None and pods.version == own else None
        facts.report.on("K8S-014", where, services=services, host=stated.control_plane, version=own, free=unused)
    if pods is not None:
        _room(facts, pods, stated)


def _api_family(facts: Facts, stated: Kubernetes) -> int | None:
    """4 or 6 by the address that the API server is reached at, the first on the fabric; None where that is not known."""
    host = facts.site.management_hosts.get(stated.control_plane)
    subnet = facts.subnets.get(host.fabric_network) if host is not None else None
    return subnet.prefixes[0].version if subnet is not None and subnet.prefixes else None


def _room(facts: Facts, pods: Prefix, stated: Kubernetes) -> None:
    """Whether every node gets a pod prefix of its own."""
    nodes = len(facts.site.gpu_servers) + (sum(len(members) for _, _, members in facts.pis()) if stated.pis_join else 0)
    size = NODE_PREFIX[pods.version]
    room = 2 ** max(size - pods.prefixlen, 0) if pods.prefixlen <= size else 0
    if pods.version == 6 and size - pods.prefixlen > NODE_PREFIX_BITS:
        shortest = size - NODE_PREFIX_BITS
        shorter = f"{pods.network_address}/{shortest}"
        facts.report.on(
            "K8S-015", ("kubernetes", "pod_prefix"), prefix=pods, size=size, shortest=shortest, shorter=shorter
        )
    if nodes > room:
        longest = size - (nodes - 1).bit_length()
        said = {"prefix": pods, "room": room, "nodes": nodes, "size": size}
        unused = free.cluster_prefix(facts, pods.version, longest=longest)
        facts.report.on("K8S-010", ("kubernetes", "pod_prefix"), **said, free=unused)


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one.version == other.version and one.overlaps(other)


def _meant(text: str) -> Prefix | None:
    """The prefix that the address *text*, with a length, lies in; None where it is another mistake."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return None
    return found if "/" in text and not is_special(found) else None


def _prefix(facts: Facts, path: Path, text: str) -> Prefix | None:
    try:
        if "/" not in text:
            raise ValueError("no length")
        prefix = ip_network(text)
    except ValueError:
        facts.report.on("K8S-004", path, text=text, free=_meant(text) or free.cluster_prefix(facts))
        return None
    if is_special(prefix):
        facts.report.on("K8S-011", path, prefix=prefix, free=free.cluster_prefix(facts, prefix.version))
        return None
    return prefix
