"""Who talks to whom, on which port: the one table that host firewalls follow from, and that checks prove. Pure.

A flow is what opens a connection; its answers belong to it. What no flow names is refused. Sources are addresses, collapsed to prefixes
and spans, so that a table of a thousand nodes stays a few lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network

from pinion.plan.cluster import API_SERVER_PORT
from pinion.plan.model import DeviceKind, DevicePlan, FlowPlan
from pinion.site.allocation import node_name, prefixes
from pinion.site.model import Purpose, Site
from pinion.site.quantities import numbers

#: IANA service names and port numbers.
SSH, HTTPS, NTP = 22, 443, 123
#: RoCEv2 (InfiniBand Architecture Specification, annex A17: UDP destination port).
ROCE = 4791
#: The kubelet's API (Kubernetes: ports and protocols).
KUBELET = 10250
#: VXLAN as the Linux kernel has it by default, and with it flannel and the lab's pod network; IANA's own number is 4789.
POD_NETWORK = 8472
#: Debian's prometheus-node-exporter.
NODE_METRICS = 9100

_HOSTS = frozenset({DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST})


@dataclass(frozen=True, slots=True)
class _Peers:
    """One side of a flow: what it is called, and its addresses as `collapse` gives them."""

    words: str
    addresses: tuple[str, ...]


class _Site:
    """The devices of a site by what they do, each looked up once."""

    def __init__(self, site: Site, devices: Sequence[DevicePlan]) -> None:
        self.site = site
        self.by_kind: Mapping[DeviceKind, list[DevicePlan]] = _by_kind(devices)
        self.devices = devices
        self.rdma = {name for name, network in site.networks.items() if network.purpose is Purpose.RDMA}

    def names(self, *kinds: DeviceKind) -> tuple[str, ...]:
        """The names of all devices of *kinds*, in the plan's order."""
        return tuple(device.name for kind in kinds for device in self.by_kind[kind])

    def peers(self, words: str, *kinds: DeviceKind) -> _Peers:
        """The devices of *kinds* as a side of a flow."""
        return self.of(words, (device for kind in kinds for device in self.by_kind[kind]))

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


def flows(site: Site, devices: Sequence[DevicePlan]) -> tuple[FlowPlan, ...]:
    """All flows of *site* between its *devices*, and into them, by topic."""
    known = _Site(site, devices)
    found = (*_logins(known), *_records(known), *_cluster(known), *_rdma(known), *_concerns(known), *_allowed(known))
    return tuple(flow for flow in found if flow.sources and flow.hosts)


def by_host(table: Iterable[FlowPlan]) -> Mapping[str, tuple[FlowPlan, ...]]:
    """The flows that end at each host, by its name, in the table's order."""
    found: defaultdict[str, list[FlowPlan]] = defaultdict(list)
    for flow in table:
        for name in flow.hosts:
            found[name].append(flow)
    return {name: tuple(ending) for name, ending in found.items()}


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


def family(source: str) -> int:
    """The address family, 4 or 6, of one source of a flow."""
    return ip_network(source.partition("-")[0], strict=False).version


def _by_kind(devices: Sequence[DevicePlan]) -> Mapping[DeviceKind, list[DevicePlan]]:
    found: defaultdict[DeviceKind, list[DevicePlan]] = defaultdict(list)
    for device in devices:
        found[device.kind].append(device)
    return found


def _flow(
    name: str,
    peers: _Peers,
    hosts: tuple[str, ...],
    ports: tuple[int, ...],
    why: str,
    origin: str,
    *,
    udp: bool = False,
) -> FlowPlan:
    return FlowPlan(
        name=name,
        peers=peers.words,
        sources=peers.addresses,
        hosts=hosts,
        protocol="udp" if udp else "tcp",
        ports=ports,
        why=why,
        origin=origin,
    )


def _logins(known: _Site) -> Iterator[FlowPlan]:
    operators = known.operators()
    everywhere = known.names(DeviceKind.MANAGEMENT_HOST, DeviceKind.PI, DeviceKind.GPU_SERVER)
    yield _flow("ssh", operators, everywhere, (SSH,), "Ansible, pyinfra, checks and people", "networks")
    switches = known.names(DeviceKind.SWITCH)
    yield _flow("switch-ssh", operators, switches, (SSH,), "the switch driver and people", "switches")


def _records(known: _Site) -> Iterator[FlowPlan]:
    hosts = known.names(DeviceKind.MANAGEMENT_HOST)
    yield _flow("netbox", known.operators(), hosts, (HTTPS,), "NetBox, for pulumi and people", "management_hosts")


def _cluster(known: _Site) -> Iterator[FlowPlan]:
    stated = known.site.kubernetes
    if stated is None:
        return
    kinds = known.nodes()
    server = next(device for device in known.devices if device.name == stated.control_plane)
    nodes = known.peers("nodes", *kinds)
    control_plane = known.of("control plane", [server])
    names, origin = known.names(*kinds), "kubernetes"
    yield _flow("api-server", nodes, (server.name,), (API_SERVER_PORT,), "kubelets, proxies and pods", origin)
    yield _flow(
        "api-server-operators", known.operators(), (server.name,), (API_SERVER_PORT,), "kubectl, pulumi", origin
    )
    yield _flow("kubelet", control_plane, names, (KUBELET,), "logs, exec and probes of the API server", origin)
    both = _Peers("nodes, control plane", collapse((*nodes.addresses, *control_plane.addresses)))
    yield _flow("pod-network", both, (server.name, *names), (POD_NETWORK,), "VXLAN between nodes", origin, udp=True)


def _rdma(known: _Site) -> Iterator[FlowPlan]:
    hosts = tuple(name for name, server in known.site.gpu_servers.items() if server.rdma is not None)
    peers = _Peers("RDMA networks", known.networks(Purpose.RDMA))
    why = "RoCEv2; the NICs answer it themselves, so this rule only sees what they leave to the kernel"
    yield _flow("roce", peers, hosts, (ROCE,), why, "gpu_servers", udp=True)


def _concerns(known: _Site) -> Iterator[FlowPlan]:
    """What the hosts' own concerns listen for."""
    settings = known.site.concerns
    management = known.peers("management hosts", DeviceKind.MANAGEMENT_HOST)
    servers = known.names(DeviceKind.MANAGEMENT_HOST)
    everywhere = known.names(DeviceKind.MANAGEMENT_HOST, DeviceKind.PI, DeviceKind.GPU_SERVER)
    if settings.base is not None and not settings.base.time_servers:
        clients = known.peers("hosts", *sorted(_HOSTS))
        yield _flow("time", clients, servers, (NTP,), "the management hosts give the time", "concerns.base", udp=True)
    if settings.node_metrics is not None:
        collectors = management if management.addresses else known.operators()
        why = "Prometheus fetches the hosts' metrics"
        yield _flow("node-metrics", collectors, everywhere, (NODE_METRICS,), why, "concerns.node_metrics")


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
            tuple(dict.fromkeys(host for written in stated.hosts for host in _hosts(known.site, written))),
            stated.ports,
            stated.why or "stated by the site",
            f"concerns.firewall.allow.{name}",
            udp=stated.protocol == "udp",
        )


def _sources(site: Site, written: str) -> tuple[str, ...]:
    """A source of the site file: a network by name, or a prefix."""
    network = site.networks.get(written)
    return (written,) if network is None else tuple(str(prefix) for prefix in prefixes(network))


def _hosts(site: Site, written: str) -> tuple[str, ...]:
    """A destination of the site file: a group of Pis, or one host by name."""
    group = site.pis.get(written)
    return (written,) if group is None else tuple(node_name(written, number) for number in numbers(group.numbers))
