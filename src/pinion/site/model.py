"""The Site: what the user states about one site, typed and frozen. Nothing derived is stored in it.

Invariants:

* Unknown keys are refused everywhere (`extra="forbid"`), so a misspelt key is an error and never a silent default.
* Values stay as the person wrote them (``60%``, ``1-8``); `pinion.site.quantities` gives them their meaning.
* No rule that needs more than one object is checked here: those live in `pinion.site.rules` and are reported together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pinion.site.concerns import Concerns
from pinion.site.statement import (
    ArtefactUrl,
    Description,
    DnsLabel,
    Dscp,
    Duration,
    ImageReference,
    MacAddress,
    Mtu,
    Name,
    NodeNumber,
    Numbers,
    Percentage,
    PortList,
    Sha256,
    Signature,
    Statement,
    SwitchPortList,
    Vid,
    says,
)


class Purpose(StrEnum):
    """What a network is for. It decides the defaults: gateway, MTU, where it is trunked, who may talk to whom."""

    MANAGEMENT = "management"  #: out-of-band: switch management ports and management hosts; never on a fabric port
    CONTROL = "control"  #: Kubernetes, SSH and RPC between servers
    EDGE = "edge"  #: the Pis and their clients
    RDMA = "rdma"  #: RoCEv2 between GPU servers; never routed


class Delivery(StrEnum):
    """How a traffic class treats congestion. `LOSSLESS` needs PFC, so a platform with lossless buffers."""

    LOSSY = "lossy"
    LOSSLESS = "lossless"


class Rack(Statement):
    """One rack."""

    units: Annotated[int, Field(ge=1, le=60)] = says("Height in rack units (EIA-310).", default=42)
    description: Description = says("Free text.", default="")


class Network(Statement):
    """One VLAN with its prefixes. Exactly one of `prefix` and `prefixes` is stated."""

    vid: Vid = says("VLAN identifier (IEEE 802.1Q), 2 to 4094; 1 is every switch's factory VLAN.")
    purpose: Purpose = says(
        "What the network is for. `management`: out-of-band, never on a fabric port. "
        "`control`: Kubernetes, SSH and RPC between servers. "
        "`edge`: the Pis and their clients. `rdma`: RoCEv2 between GPU servers, never routed."
    )
    prefix: str | None = says("The network's one prefix, such as `192.168.101.0/24` or `fd00:101::/64`.", default=None)
    prefixes: tuple[str, ...] = says("Several prefixes, in order; a node has the same offset in each.", default=())
    gateway: str | None = says(
        "The router's address, or `none`. Unstated: the first host address of control and edge networks, none for the others.",
        default=None,
    )
    mtu: Mtu | None = says(
        "Layer-3 MTU of the hosts, in bytes. Unstated: 9000 for RDMA, 1500 for the others.", default=None
    )
    ranges: dict[Name, str] = says(
        "Ranges of addresses by name, each `first-last`. A kind of device takes its addresses from the range of its own name "
        "(`switches`, `management-hosts`, `gpu-servers`, `pis`, `rdma`) unless it states `range`.",
        default={},
    )
    dhcp: str | None = says(
        "The range, `first-last`, that a DHCP server hands out. No device of this file is in it.", default=None
    )
    description: Description = says("Free text.", default="")


class TrafficClass(Statement):
    """One class of traffic. The shares of all classes add up to 100%."""

    share: Percentage = says("Share of a congested switch port, such as `60%`.")
    dscp: Dscp = says(
        "DSCP by which switches and NICs know its packets, 0 to 47 (48 and above are network control). RDMA NICs mark with it; "
        "whoever sends the other classes' packets marks them."
    )
    delivery: Delivery = says(
        "`lossy`, or `lossless` (PFC; only for `rdma`, on switches with lossless buffers, with `concerns.nic_tuning`).",
        default=Delivery.LOSSY,
    )


class Device(Statement):
    """What every device with a name of its own may state. The number in its name is its identity: `tor-2` takes the second address."""

    rack: DnsLabel = says("The rack it stands in.")
    unit: Annotated[int, Field(ge=1)] | None = says(
        "The lowest rack unit that it fills, counted from 1 at the bottom.", default=None
    )
    platform: Name = says(
        "Its operating system, from the catalogue; `lab` for a machine that Pinion makes itself.", default="debian-13"
    )
    network: Name = says("The network of its first interface.")
    range: Name | None = says(
        "The range of that network to take its address from. Unstated: the range of its kind.", default=None
    )
    address: str | None = says(
        "Its address in that network, instead of the one that follows from name and range.", default=None
    )
    serial: Annotated[str, StringConstraints(max_length=50)] = says("Serial number.", default="")
    mac: MacAddress | None = says("MAC address of its first interface, in quotes.", default=None)
    description: Description = says("Free text.", default="")


class Switch(Device):
    """A top-of-rack switch. `network` is where its management interface lives."""

    platform: Name = says("Its operating system, from the catalogue; `lab` for a switch that Pinion makes itself.")
    model: Name = says("Its model, from the catalogue.")
    pair: DnsLabel | None = says("The other switch of its pair; that one must name this one.", default=None)
    pair_ports: PortList | None = says(
        "The ports of the pair link, such as `Ethernet55/1-56/1`, in the order of the other side.", default=None
    )
    uplinks: PortList | None = says("The ports that lead out of the rack.", default=None)


class ManagementHost(Device):
    """A machine that runs the site's own services (NetBox, Kubernetes control plane, CA). `network` is its out-of-band side."""

    profile: Name = says("Its server profile, from the catalogue; it needs two ports.")
    fabric_network: Name = says("The network of its leg on the ToR switch.")
    fabric_address: str | None = says("Its address there, instead of the one that follows from its name.", default=None)
    port: SwitchPortList = says("The switch port of that leg, such as `tor-1 Ethernet16`.")


class PiOverride(Statement):
    """Facts about one node of a group, by its number."""

    serial: Annotated[str, StringConstraints(max_length=50)] = says("Serial number.", default="")
    mac: MacAddress | None = says("MAC address, in quotes.", default=None)
    port: SwitchPortList | None = says(
        "The switch port it is plugged into, instead of the one that follows from its number.", default=None
    )
    address: str | None = says("Its address, instead of the one that follows from its number.", default=None)


class PiGroup(Statement):
    """A group of equal Raspberry Pis: `pi` with `numbers: 1-8` is pi-01 to pi-08.

    A node's number is its identity: number `first` takes the first address of `range` and the first of `ports`, number `first` + n the
    one n further on. So nothing moves when numbers are added or removed.
    """

    numbers: Numbers = says("The numbers of the nodes, such as `1-8` or `1-4,7`.")
    first: Annotated[int, Field(ge=1)] = says("The number that has the first address and the first port.", default=1)
    board: Name = says("The board, from the catalogue.")
    hat: Name | None = says("The accelerator HAT on every board, from the catalogue.", default=None)
    rack: DnsLabel = says("The rack they stand in.")
    platform: Name = says(
        "Their operating system; `lab` for machines that Pinion makes itself.", default="raspberry-pi-os"
    )
    network: Name = says("Their network.")
    range: Name = says("The range of that network that their addresses come from.", default="pis")
    ports: SwitchPortList = says("The switch ports kept for the group, such as `tor-1 Ethernet1-8`.")
    nodes: dict[NodeNumber, PiOverride] = says("What differs for single nodes, by number.", default={})
    description: Description = says("Free text.", default="")


class RdmaLinks(Statement):
    """The RoCE links of a GPU server: NIC i of the profile takes the i-th port, counted through `ports` in written order."""

    network: Name = says("The RDMA network.")
    ports: Annotated[dict[DnsLabel, PortList], Field(min_length=1)] = says(
        "The ports by switch, such as `{tor-1: Ethernet49/1-52/1}`; as many as the profile has RDMA NICs."
    )
    range: Name = says("The range of that network that the addresses come from.", default="rdma")


class GpuServer(Device):
    """An NVLink server. `network` is its control network."""

    profile: Name = says("Its server profile, from the catalogue.")
    port: SwitchPortList = says("The switch port of its control link, such as `tor-1 Ethernet17`.")
    rdma: RdmaLinks | None = says("Its RoCE links.", default=None)


class ArtefactSource(Statement):
    """Where an artefact is had from, and how it is known to be the right one. The signature is over all of this but `url`."""

    url: ArtefactUrl = says(
        "Its address; a server that gives parts of files (HTTP ranges) lets a node go on after a break."
    )
    sha256: Sha256 = says("Its SHA-256, in lower-case hex.")
    size: Annotated[int, Field(ge=1, le=2**40)] = says("Its length in bytes.")
    signature: Signature = says("Ed25519 signature by the site's key (`concerns.model_store.key`), in base64.")
    format: Literal["gguf", "onnx"] = says("Its format.", default="gguf")
    architecture: Name = says("Of a GGUF file: what it says of itself under general.architecture.", default="llama")


class EdgeModel(Statement):
    """How a model runs on a Pi. Which program runs it is `concerns.edge_runtime.engine`."""

    artefact: Name = says("Name of the model's artefact.")
    quantisation: Name | None = says("Quantisation of the weights, such as `Q4_0`.", default=None)
    source: ArtefactSource | None = says("Where it is had from; needed for `concerns.model_store`.", default=None)


class Batching(Statement):
    """How requests that come close together become one batch (Triton's dynamic batching)."""

    window: Duration = says("Longest that a request waits for others, 1ms to 5ms.", default="2ms")
    largest: Annotated[int, Field(ge=1, le=128)] = says("Most requests of one batch; 1 makes no batches.", default=8)
    preferred: Annotated[tuple[Annotated[int, Field(ge=2, le=128)], ...], Field(max_length=16)] = says(
        "Sizes that are computed at once, without waiting for more.", default=()
    )


class PoolModel(Statement):
    """How a model runs on the NVLink pool: a Helm release of the chart `triton` in the namespace `models`."""

    artefact: Name = says("Name of the model's artefact.")
    source: ArtefactSource = says("Where each pod has it from, signed by the site's key (`concerns.model_store.key`).")
    runtime: Literal["triton"] = says("The program that runs it.", default="triton")
    image: ImageReference | None = says(
        "Image of Triton with Pinion's programs, by digest, such as `registry.example.org/triton@sha256:…`. Unstated: the lab's own.",
        default=None,
    )
    replicas: Annotated[int, Field(ge=1, le=1000)] = says("Number of copies, each a pod.", default=1)
    instances: Annotated[int, Field(ge=1, le=64)] = says(
        "Processes of each copy, each of which computes one batch at a time.", default=1
    )
    threads: Annotated[int, Field(ge=1, le=128)] = says("Threads that compute one batch.", default=1)
    memory_mib: Annotated[int, Field(ge=256, le=2**22)] = says("Memory of each copy, in MiB.", default=768)
    batching: Batching = says("How requests become batches.", default=Batching())


class ServedModel(Statement):
    """A model as clients name it, with its edge form, its pool form, or both."""

    edge: EdgeModel | None = says("Its form on the Pis.", default=None)
    pool: PoolModel | None = says("Its form on the NVLink pool.", default=None)


class Routing(Statement):
    """When a request stays on the Pi and when it goes to the pool."""

    prompt_tokens: Annotated[int, Field(ge=1)] | None = says("Longest prompt that a Pi takes, in tokens.", default=None)
    queue_wait: Duration | None = says("Longest wait in a Pi's queue.", default=None)
    cpu: Percentage | None = says("CPU use of a Pi above which requests go to the pool.", default=None)
    confidence: Annotated[float, Field(ge=0, le=1)] | None = says(
        "Confidence, 0 to 1, below which the pool answers.", default=None
    )
    local_tokens: Annotated[int, Field(ge=1)] | None = says("Longest answer that a Pi gives, in tokens.", default=None)
    speculative_tokens: Annotated[int, Field(ge=0)] | None = says(
        "Tokens that a Pi drafts while the pool is asked.", default=None
    )
    pool_timeout: Duration | None = says("Time after which the pool counts as unreachable.", default=None)


class EdgeObjective(Statement):
    """Latency objectives of answers from the Pis."""

    p50: Duration | None = says("Median latency.", default=None)
    p95: Duration | None = says("95th percentile of the latency.", default=None)


class SiteObjective(Statement):
    """Objectives of the whole site, as a client sees them."""

    p95: Duration | None = says("95th percentile of the latency.", default=None)
    availability: Percentage | None = says("Share of requests that are answered, below 100%.", default=None)


class Objectives(Statement):
    """Service level objectives."""

    edge: EdgeObjective | None = says("Of answers from the Pis.", default=None)
    site: SiteObjective | None = says("Of the whole site.", default=None)
    alert_at: Percentage | None = says("Share of the error budget at which an alert fires.", default=None)


class ClusterOwner(StrEnum):
    """Who makes the cluster's namespaces, policies and releases."""

    PULUMI = "pulumi"  #: `pulumi up`
    FLUX = "flux"  #: Flux, from the tree that `pinion render` writes
    ARGOCD = "argocd"  #: Argo CD, from the tree that `pinion render` writes


class ClusterRepository(Statement):
    """The git repository with the tree of files that Flux or Argo CD makes the cluster from."""

    url: str = says("Where the cluster fetches it: `https://` or `ssh://`, without a password.")
    branch: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$")] = says(
        "The branch that the cluster follows.", default="main"
    )
    folder: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")
    ] = says("The tree's folder in it, such as `clusters/lab`.")
    credentials: DnsLabel | None = says(
        "Name of the Secret in namespace `flux-system` by which Flux fetches it; Argo CD finds its own by `url`.",
        default=None,
    )


class Kubernetes(Statement):
    """The site's cluster."""

    control_plane: DnsLabel = says("The management host that serves the API.")
    pis_join: bool = says(
        "Whether the Pis are nodes of the cluster, whoever has them join; `concerns.edge_cluster` does.", default=True
    )
    pod_prefix: str = says("Prefix of the pods' addresses.", default="10.244.0.0/16")
    service_prefix: str = says("Prefix of the services' addresses.", default="10.96.0.0/16")
    owner: ClusterOwner = says(
        "Who makes namespaces, policies and releases: `pulumi`, or from the tree of `pinion render` `flux` or `argocd`.",
        default=ClusterOwner.PULUMI,
    )
    repository: ClusterRepository | None = says(
        "Where Flux or Argo CD finds that tree; may be stated before it owns the cluster.", default=None
    )


class Service(Statement):
    """One Helm release of a chart of ours."""

    chart: DnsLabel = says("Folder of `charts/`.")
    namespace: DnsLabel = says("Kubernetes namespace.")
    server: DnsLabel | None = says("The GPU server that runs it; unstated, any GPU server may.", default=None)
    replicas: Annotated[int, Field(ge=0)] = says("Number of pods.", default=1)


class Access(Statement):
    """Who may log in."""

    admins: tuple[str, ...] = says("OpenSSH public keys of the administrators.", default=())
    authorities: tuple[str, ...] = says(
        "OpenSSH public keys of certificate authorities: who has a certificate of theirs for one of `principals` is an administrator.",
        default=(),
    )
    principals: Annotated[tuple[Name, ...], Field(min_length=1)] = says(
        "What a certificate must be made out to.", default=("ops",)
    )


class Rollout(Statement):
    """How a run over many hosts goes: a canary, a few more, the rest; it stops at the first wave whose checks do not hold."""

    canary: Annotated[int, Field(ge=1)] = says("Hosts in the first wave.", default=1)
    second: Percentage = says("Share of all hosts in the second wave.", default="10%")
    limits: dict[Name, Annotated[int, Field(ge=1)]] = says(
        "The most hosts of a group in one wave: of `pis`, `gpu_servers` or `management_hosts`, or of a group of Pis by its name.",
        default={},
    )


class Site(Statement):
    """One site, whole."""

    version: Literal[1] = says("Version of the site file's format.")
    site: DnsLabel = says("Name of the site.")
    region: DnsLabel = says("Name of its region.")
    description: Description = says("Free text.", default="")
    racks: Annotated[dict[DnsLabel, Rack], Field(min_length=1)] = says("The racks by name.")
    networks: Annotated[dict[Name, Network], Field(min_length=1)] = says("The networks by name.")
    traffic_classes: dict[Literal["control", "rdma", "edge_http"], TrafficClass] = says(
        "The traffic classes.", default={}
    )
    switches: Annotated[dict[DnsLabel, Switch], Field(min_length=1)] = says("The top-of-rack switches by name.")
    management_hosts: dict[DnsLabel, ManagementHost] = says("The management hosts by name.", default={})
    pis: dict[DnsLabel, PiGroup] = says("The groups of Raspberry Pis by name.", default={})
    gpu_servers: dict[DnsLabel, GpuServer] = says("The GPU servers by name.", default={})
    kubernetes: Kubernetes | None = says("The site's cluster.", default=None)
    services: dict[DnsLabel, Service] = says("The Helm releases by name.", default={})
    models: dict[Name, ServedModel] = says("The models by the name that clients use.", default={})
    routing: Routing | None = says("When a request stays on the Pi.", default=None)
    objectives: Objectives | None = says("Service level objectives.", default=None)
    access: Access = says("Who may log in.", default=Access())
    concerns: Concerns = says(
        "What the hosts get beyond `access` and `os_tuning`, by concern; a concern that is not named is taken away again.",
        default=Concerns(),
    )
    rollout: Rollout = says("How a run over many hosts goes.", default=Rollout())
    decommissioned: tuple[str, ...] = says(
        "Nodes that leave, by name, such as `[pi-03]`: NetBox says `decommissioning`, their switch ports are shut, and they are hosts no "
        "more. Each keeps its number, address and port until it is taken out of the file altogether.",
        default=(),
    )
