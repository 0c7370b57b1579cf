"""Who talks to whom, on which port: the one table that host firewalls follow from, and that checks prove. Pure.

A flow is what opens a connection; its answers belong to it. What no flow names is refused. Sources are addresses, collapsed to prefixes
and spans, so that a table of a thousand nodes stays a few lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network, summarize_address_range

from pinion.plan.identity import authority_host
from pinion.plan.model import DeviceKind, DevicePlan, FlowPlan
from pinion.plan.package_sources import archive
from pinion.site.allocation import address_range, prefixes, spread
from pinion.site.concerns import Base
from pinion.site.edge_models import server, stored
from pinion.site.model import PiGroup, Purpose, Site
from pinion.site.node_concerns import EdgeRuntime
from pinion.site.pool_models import release_name
from pinion.site.pool_models import served as served_by_pool
from pinion.site.quantities import switch_ports

#: The flow that the hosts' clocks are set over.
TIME = "time"
#: The flow by which people and controllers log in to hosts.
SSH_FLOW = "ssh"
#: The flow by which pods of the pool have their models from hosts of the site.
POOL_MODELS = "pool-models"
#: IANA service names and port numbers.
SSH, DOMAIN, HTTPS, NTP = 22, 53, 443, 123
#: kube-apiserver's customary secure port.
API_SERVER_PORT = 6443
#: Triton's customary ports for KServe's protocol over HTTP and for Prometheus.
TRITON_HTTP, TRITON_METRICS = 8000, 8002
#: RoCEv2 (InfiniBand Architecture Specification, annex A17: UDP destination port).
ROCE = 4791
#: The kubelet's API (Kubernetes: ports and protocols).
KUBELET = 10250
#: VXLAN as the Linux kernel has it by default, and with it flannel and the lab's pod network; IANA's own number is 4789.
POD_NETWORK = 8472
#: Debian's prometheus-node-exporter.
NODE_METRICS = 9100
#: NVIDIA's dcgm-exporter.
GPU_METRICS = 9400
#: Hailo's server listens where its own configuration says, and this is what that says (Raspberry Pi documentation, AI HAT+ 2).
HAILO_PORT = 8000

_HOSTS = (DeviceKind.MANAGEMENT_HOST, DeviceKind.PI, DeviceKind.GPU_SERVER)


@dataclass(frozen=True, slots=True)
class _Peers:
    """One side of a flow: what it is called, and its addresses as `collapse` gives them."""

    words: str
    addresses: tuple[str, ...]


class _Site:
    """The devices of a site by what they do, each looked up once."""

    def __init__(self, site: Site, devices: Sequence[DevicePlan]) -> None:
        self.site = site
        self.devices = devices
        self.kinds = {device.kind for device in devices}
        self.rdma = {name for name, network in site.networks.items() if network.purpose is Purpose.RDMA}

    def hosts(self, *kinds: DeviceKind) -> tuple[DeviceKind, ...]:
        """Those of *kinds* that the site has."""
        return tuple(kind for kind in kinds if kind in self.kinds)

    def peers(self, words: str, *kinds: DeviceKind) -> _Peers:
        """The devices of *kinds* as a side of a flow; of Pis also those that their group has ports and addresses for."""
        found = self.of(words, (device for device in self.devices if device.kind in kinds)).addresses
        if DeviceKind.PI not in kinds:
            return _Peers(words, found)
        kept = (span for group in self.site.pis.values() for span in _kept(self.site, group))
        return _Peers(words, collapse((*found, *kept)))

    def of(self, words: str, devices: Iterable[DevicePlan]) -> _Peers:
        """*devices* as a side of a flow, by all their addresses but those on RDMA networks, which nothing else crosses."""
        found = (
            str(ip_interface(text).ip)
            for device in devices
            for interface in device.interfaces
            if interface.untagged_vlan not in self.rdma
            for text in interface.addresses
        )
        return _Peers(words, collapse(found))

    def networks(self, purpose: Purpose) -> tuple[str, ...]:
        """The prefixes of all networks of *purpose*."""
        return tuple(
            str(prefix)
            for network in self.site.networks.values()
            if network.purpose is purpose
            for prefix in prefixes(network)
        )

    def operators(self) -> _Peers:
        """Where people and controllers log in from: the out-of-band networks, the management hosts, and what the site states."""
        stated = self.site.concerns.firewall.operators if self.site.concerns.firewall is not None else ()
        hosts = self.peers("", DeviceKind.MANAGEMENT_HOST).addresses
        return _Peers("operators", collapse((*self.networks(Purpose.MANAGEMENT), *hosts, *stated)))

    def nodes(self) -> tuple[DeviceKind, ...]:
        """The kinds of host that are nodes of the cluster."""
        if self.site.kubernetes is None:
            return ()
        return (DeviceKind.PI, DeviceKind.GPU_SERVER) if self.site.kubernetes.pis_join else (DeviceKind.GPU_SERVER,)


def _kept(site: Site, group: PiGroup) -> Iterator[str]:
    """The addresses of all nodes that *group* has ports for, so that one more of them changes nobody's table."""
    network = site.networks[group.network]
    span = address_range(network, group.range)
    last = min(int(span.start) + len(switch_ports(group.ports).ports) - 1, int(span.end))
    ends = (dict(spread(end, prefixes(network))) for end in (span.start, span.start + (last - int(span.start))))
    for first, final in zip(*(found.values() for found in ends), strict=True):
        if first is not None:
            yield str(first) if final in {None, first} else f"{first}-{final}"


def flows(site: Site, devices: Sequence[DevicePlan]) -> tuple[FlowPlan, ...]:
    """All flows of *site* between its *devices*, and into them, by topic."""
    known = _Site(site, devices)
    topics = (_logins, _records, _cluster, _rdma, _concerns, _pool, _allowed)
    found = (flow for topic in topics for flow in topic(known))
    return tuple(flow for flow in found if flow.sources and (flow.kinds or flow.hosts or flow.releases))


def ending_at(table: Iterable[FlowPlan], device: DevicePlan) -> tuple[FlowPlan, ...]:
    """The flows of *table* that end at *device*, in the table's order."""
    names = {device.name}
    if device.kind is DeviceKind.PI:
        names.add(device.name.rpartition("-")[0])
    return tuple(flow for flow in table if device.kind in flow.kinds or not names.isdisjoint(flow.hosts))


def collapse(sources: Iterable[str]) -> tuple[str, ...]:
    """Addresses, prefixes and spans as few as possible that mean the same and do not overlap, IPv4 before IPv6.

    Each is an address, a prefix where it is exactly one, or ``first-last``.
    """
    spans: list[tuple[int, int, int]] = []
    for version, first, last in sorted(set(map(_span, sources))):
        if spans and spans[-1][0] == version and first <= spans[-1][2] + 1:
            spans[-1] = version, spans[-1][1], max(last, spans[-1][2])
        else:
            spans.append((version, first, last))
    return tuple(_written(version, first, last) for version, first, last in spans)


def lets(flow: FlowPlan, address: str) -> bool:
    """Whether whoever has *address* (without mask) may open *flow*."""
    return within(flow.sources, address)


def within(sources: Iterable[str], address: str) -> bool:
    """Whether *address* (without mask) is in one of *sources*, each an address, a prefix or a span."""
    asked = ip_address(address)
    spans = (_span(source) for source in sources)
    return any(version == asked.version and first <= int(asked) <= last for version, first, last in spans)


@cache
def _span(source: str) -> tuple[int, int, int]:
    """Family, first and last address of *source*."""
    start, _, end = source.partition("-")
    if end:
        return ip_address(start).version, int(ip_address(start)), int(ip_address(end))
    network = ip_network(start)
    return network.version, int(network[0]), int(network[-1])


def _written(version: int, first: int, last: int) -> str:
    make = IPv4Address if version == 4 else IPv6Address
    if first == last:
        return str(make(first))
    size = last - first + 1
    if size & (size - 1) == 0 and first % size == 0:
        return f"{make(first)}/{make(first).max_prefixlen - size.bit_length() + 1}"
    return f"{make(first)}-{make(last)}"


def prefixes_of(source: str) -> tuple[str, ...]:
    """One source of a flow as prefixes, for those who know no spans."""
    _, first, last = _span(source)
    make = IPv4Address if family(source) == 4 else IPv6Address
    return tuple(map(str, summarize_address_range(make(first), make(last))))


def family(source: str) -> int:
    """The address family, 4 or 6, of one source of a flow."""
    return ip_network(source.partition("-")[0], strict=False).version


def _flow(
    name: str,
    peers: _Peers,
    to: tuple[DeviceKind | str, ...],
    ports: tuple[int, ...],
    why: str,
    origin: str,
    *,
    udp: bool = False,
    releases: tuple[str, ...] = (),
) -> FlowPlan:
    return FlowPlan(
        name=name,
        peers=peers.words,
        sources=peers.addresses,
        kinds=tuple(kind for kind in to if isinstance(kind, DeviceKind)),
        hosts=tuple(host for host in to if not isinstance(host, DeviceKind)),
        releases=releases,
        protocol="udp" if udp else "tcp",
        ports=ports,
        why=why,
        origin=origin,
    )


def _logins(known: _Site) -> Iterator[FlowPlan]:
    operators = known.operators()
    everywhere = known.hosts(*_HOSTS)
    yield _flow(SSH_FLOW, operators, everywhere, (SSH,), "Ansible, pyinfra, checks and people", "networks")
    switches = known.hosts(DeviceKind.SWITCH)
    yield _flow("switch-ssh", operators, switches, (SSH,), "the switch driver and people", "switches")


def _records(known: _Site) -> Iterator[FlowPlan]:
    hosts = known.hosts(DeviceKind.MANAGEMENT_HOST)
    yield _flow("netbox", known.operators(), hosts, (HTTPS,), "NetBox, for pulumi and people", "management_hosts")


def _cluster(known: _Site) -> Iterator[FlowPlan]:
    stated = known.site.kubernetes
    if stated is None:
        return
    kinds = known.nodes()
    server = next(device for device in known.devices if device.name == stated.control_plane)
    nodes = known.peers("nodes", *kinds)
    control_plane = known.of("control plane", [server])
    origin = "kubernetes"
    yield _flow("api-server", nodes, (server.name,), (API_SERVER_PORT,), "kubelets, proxies and pods", origin)
    yield _flow(
        "api-server-operators", known.operators(), (server.name,), (API_SERVER_PORT,), "kubectl, pulumi", origin
    )
    yield _flow(
        "kubelet", control_plane, known.hosts(*kinds), (KUBELET,), "logs, exec and probes of the API server", origin
    )
    both = _Peers("nodes, control plane", collapse((*nodes.addresses, *control_plane.addresses)))
    ends = (server.name, *known.hosts(*kinds))
    yield _flow("pod-network", both, ends, (POD_NETWORK,), "VXLAN between nodes", origin, udp=True)


def _rdma(known: _Site) -> Iterator[FlowPlan]:
    peers = _Peers("RDMA networks", known.networks(Purpose.RDMA))
    why = "RoCEv2; the NICs answer it themselves, so this rule only sees what they leave to the kernel"
    yield _flow("roce", peers, known.hosts(DeviceKind.GPU_SERVER), (ROCE,), why, "gpu_servers", udp=True)


def _concerns(known: _Site) -> Iterator[FlowPlan]:
    """What the hosts' own concerns listen for."""
    settings = known.site.concerns
    management = known.peers("management hosts", DeviceKind.MANAGEMENT_HOST)
    servers = known.hosts(DeviceKind.MANAGEMENT_HOST)
    everywhere = known.hosts(*_HOSTS)
    if settings.base is not None and not settings.base.time_servers:
        clients = known.peers("hosts", *_HOSTS)
        yield _flow(TIME, clients, servers, (NTP,), "the management hosts give the time", "concerns.base", udp=True)
    if settings.base is not None:
        yield from _reached(known, settings.base)
    collectors = management if management.addresses else known.operators()
    if settings.node_metrics is not None:
        why = "Prometheus fetches the hosts' metrics"
        yield _flow("node-metrics", collectors, everywhere, (NODE_METRICS,), why, "concerns.node_metrics")
    if settings.edge_runtime is not None:
        sources = (DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST)
        askers, pis = known.peers("Pis, GPU servers, management hosts", *sources), known.hosts(DeviceKind.PI)
        why = "routers and gateways ask for answers"
        yield _flow("edge-runtime", askers, pis, (edge_port(settings.edge_runtime),), why, "concerns.edge_runtime")
    if settings.model_store is not None:
        yield from _fetched(known)
    authority = authority_host(known.site)
    if settings.site_ca is not None and authority is not None:
        askers = known.peers("hosts, operators", *_HOSTS)
        both = _Peers(askers.words, collapse((*askers.addresses, *known.operators().addresses)))
        why = "certificates of the hosts: asked for, renewed, revoked"
        yield _flow("site-ca", both, (authority,), (settings.site_ca.port,), why, "concerns.site_ca")
    if settings.gpu_driver is not None:
        servers = known.hosts(DeviceKind.GPU_SERVER)
        why = "Prometheus fetches the GPUs' metrics"
        yield _flow("gpu-metrics", collectors, servers, (GPU_METRICS,), why, "concerns.gpu_driver")


def _fetched(known: _Site) -> Iterator[FlowPlan]:
    """Models that hosts of the site itself serve as files, to Pis and to the pods of the pool, which come from the GPU servers."""
    origin = "concerns.model_store"
    edge = [server(source) for _, source in stored(known.site).values()]
    if found := _own(known, edge):
        yield _flow("models", known.peers("Pis", DeviceKind.PI), *found, "Pis fetch their models", origin)
    pool = [server(model.source) for model in served_by_pool(known.site).values()]
    if found := _own(known, pool):
        peers = known.peers("GPU servers", DeviceKind.GPU_SERVER)
        yield _flow(POOL_MODELS, peers, *found, "pods of the pool fetch their models", origin)


def _pool(known: _Site) -> Iterator[FlowPlan]:
    """Who may ask the pods of the pool. Between nodes packets of a node carry an address of its pods, by most networks of pods."""
    releases = tuple(map(release_name, served_by_pool(known.site)))
    if not releases or known.site.kubernetes is None:
        return
    hosts = known.peers("", DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST).addresses
    everyone = _Peers("hosts, pods", collapse((*hosts, known.site.kubernetes.pod_prefix)))
    why = "routers, gateways and checks ask for answers"
    yield _flow("pool", everyone, (), (TRITON_HTTP,), why, "models", releases=releases)
    management = known.peers("management hosts", DeviceKind.MANAGEMENT_HOST)
    why = "Prometheus fetches Triton's metrics"
    yield _flow("pool-metrics", management, (), (TRITON_METRICS,), why, "models", releases=releases)


def _reached(known: _Site, base: Base) -> Iterator[FlowPlan]:
    """Name servers and package archives that are hosts of the site itself."""
    clients = known.peers("hosts", *_HOSTS)
    if found := _own(known, ((server, DOMAIN) for server in base.name_servers)):
        why, origin = "hosts look up names", "concerns.base.name_servers"
        yield _flow("names", clients, *found, why, origin, udp=True)
        yield _flow("names-tcp", clients, *found, f"{why}, where an answer is long", origin)
    if found := _own(known, map(archive, base.package_sources.values())):
        yield _flow("packages", clients, *found, "hosts fetch packages", "concerns.base.package_sources")


def _own(known: _Site, asked: Iterable[tuple[str, int]]) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Of servers that are *asked*, each a name or an address with a port: the hosts and ports that are the site's own, if any."""
    found = [
        (device.name, port)
        for name, port in dict.fromkeys(asked)
        for device in known.devices
        if device.kind in _HOSTS and name in {device.name, *_addresses(device)}
    ]
    return (
        (tuple(dict.fromkeys(host for host, _ in found)), tuple(dict.fromkeys(port for _, port in found)))
        if found
        else None
    )


def _addresses(device: DevicePlan) -> Iterator[str]:
    """All addresses of *device*, without masks."""
    for interface in device.interfaces:
        yield from (str(ip_interface(text).ip) for text in interface.addresses)


def edge_port(stated: EdgeRuntime) -> int:
    """Where the edge runtime listens."""
    return HAILO_PORT if stated.engine == "hailo-ollama" else stated.port


def _allowed(known: _Site) -> Iterator[FlowPlan]:
    """What the site states beyond all this."""
    firewall = known.site.concerns.firewall
    if firewall is None:
        return
    for name, stated in firewall.allow.items():
        sources = tuple(text for source in stated.sources for text in _sources(known.site, source))
        yield _flow(
            name,
            _Peers(", ".join(stated.sources), collapse(sources)),
            tuple(dict.fromkeys(stated.hosts)),
            stated.ports,
            stated.why or "stated by the site",
            f"concerns.firewall.allow.{name}",
            udp=stated.protocol == "udp",
        )


def _sources(site: Site, written: str) -> tuple[str, ...]:
    """A source of the site file: a network by name, or a prefix."""
    network = site.networks.get(written)
    return (written,) if network is None else tuple(str(prefix) for prefix in prefixes(network))
