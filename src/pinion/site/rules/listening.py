"""Programs of ours on one host: each listens on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.site.allocation import natural
from pinion.site.edge_models import ENGINE_FORMATS
from pinion.site.errors import Path
from pinion.site.rules.facts import Facts

#: TCP ports by what listens there; tests/unit/site/test_refusals.py holds them to the plan's.
SSH, NETBOX, API_SERVER, KUBELET, NODE_METRICS = 22, (80, 443), 6443, 10250, 9100
#: What NetBox's own documentation installs beside it: PostgreSQL, Redis, gunicorn.
_NETBOX_PARTS = {5432: "NetBox's PostgreSQL", 6379: "NetBox's Redis", 8001: "NetBox's gunicorn"}
#: Kubernetes documentation, "Ports and Protocols", and the kubelet's and the proxy's own health and metrics.
_CONTROL_PLANE = {
    2379: "etcd",
    2380: "etcd",
    API_SERVER: "the API server",
    10257: "the controller manager",
    10259: "the scheduler",
}
_NODE = {10248: "the kubelet", 10249: "kube-proxy", KUBELET: "the kubelet", 10255: "the kubelet", 10256: "kube-proxy"}


def check(facts: Facts) -> None:
    """All rules about ports that programs listen on."""
    concerns = facts.site.concerns
    if concerns.site_ca is not None:
        _free(facts, ("concerns", "site_ca", "port"), concerns.site_ca.port, dict(_beside_authority(facts)))
    if concerns.edge_runtime is not None and concerns.edge_runtime.engine in ENGINE_FORMATS:
        _free(facts, ("concerns", "edge_runtime", "port"), concerns.edge_runtime.port, dict(_beside_runtime(facts)))


def _free(facts: Facts, path: Path, port: int, taken: dict[int, str]) -> None:
    if port in taken:
        free = next(each for each in range(9000 if path[1] == "site_ca" else 8080, 65536) if each not in taken)
        facts.report.on("HOST-001", path, port=port, other=taken[port], concern=path[1], unused=free)


def _beside_authority(facts: Facts) -> Iterator[tuple[int, str]]:
    """What else listens on the management host that runs the authority: the first by name."""
    yield SSH, "SSH"
    yield from ((port, "NetBox") for port in NETBOX)
    yield from _NETBOX_PARTS.items()
    if facts.has(("concerns", "node_metrics")):
        yield NODE_METRICS, "the node exporter (node_metrics)"
    cluster = facts.site.kubernetes
    if cluster is not None and cluster.control_plane == min(facts.site.management_hosts, key=natural, default=None):
        yield from {**_CONTROL_PLANE, **_NODE}.items()


def _beside_runtime(facts: Facts) -> Iterator[tuple[int, str]]:
    """What else listens on a Pi."""
    yield SSH, "SSH"
    if facts.has(("concerns", "node_metrics")):
        yield NODE_METRICS, "the node exporter (node_metrics)"
    if facts.has(("concerns", "edge_cluster")):
        yield from _NODE.items()
