"""The Site: what the user states about one site, typed and frozen. Nothing derived is stored in it.

Invariants:

* Unknown keys are refused everywhere (`extra="forbid"`), so a misspelt key is an error and never a silent default.
* Values stay as the person wrote them (``60%``, ``1-8``); `pinion.site.quantities` gives them their meaning.
* No rule that needs more than one object is checked here: those live in `pinion.site.rules` and are reported together.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from pinion.site import quantities


class Statement(BaseModel):
    """Base of everything a user may state: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _parsed_by(parse: object) -> AfterValidator:
    """A validator that keeps the text as written and refuses what *parse* refuses."""

    def check(written: str) -> str:
        parse(written)  # type: ignore[operator]
        return written

    return AfterValidator(check)


def _text(value: object) -> object:
    """Let a lone number stand for its own text (``numbers: 5``), so that its parser can say what else is needed."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _number_key(key: object) -> object:
    """A key that is the number of a node, without leading zeros or spaces."""
    if isinstance(key, str):
        if not re.fullmatch(r"[1-9][0-9]{0,8}", key):
            raise ValueError(f"'{key[:40]}' is not the number of a node; write a number such as 3")
        return int(key)
    return key


#: RFC 1123 label: lower-case letters, digits and inner hyphens, at most 63 characters.
DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
#: Name of a VLAN, a range or a model artefact: letters, digits, dot, underscore and hyphen, at most 64 characters.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#: EUI-48 in the colon form.
MAC_ADDRESS = r"^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"

DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
Name = Annotated[str, StringConstraints(pattern=NAME)]
MacAddress = Annotated[str, StringConstraints(pattern=MAC_ADDRESS)]
#: The patterns are for editors; the parsers of `pinion.site.quantities` decide.
Duration = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.seconds),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|min|h)$"}),
]
Percentage = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.fraction),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?%$"}),
]
Numbers = Annotated[
    str,
    BeforeValidator(_text),
    _parsed_by(quantities.numbers),
    WithJsonSchema(
        {"type": ["string", "integer"], "pattern": r"^[0-9]+(-[0-9]+)?( ?, ?[0-9]+(-[0-9]+)?)*$", "minimum": 1}
    ),
]
SwitchPortList = Annotated[
    str,
    _parsed_by(quantities.switch_ports),
    WithJsonSchema({"type": "string", "pattern": r"^[a-z0-9-]+ +[A-Za-z]+[0-9].*$"}),
]
PortList = Annotated[
    str, _parsed_by(quantities.port_names), WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z]+[0-9].*$"})
]
#: The number of one node, as a key: written one way only, so that no two keys mean one node.
NodeNumber = Annotated[int, BeforeValidator(_number_key), Field(ge=1)]
#: 64 is the smallest IPv4 MTU worth stating (RFC 791 requires 68); 9216 the largest any switch in the catalogue takes.
Mtu = Annotated[int, Field(ge=68, le=9216)]
#: IEEE 802.1Q VLAN identifier, without the reserved 0 and 4095.
Vid = Annotated[int, Field(ge=1, le=4094)]
#: RFC 2474: six bits.
Dscp = Annotated[int, Field(ge=0, le=63)]


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


#: A field with its meaning: the JSON Schema, the reference page and the messages for missing keys all take it from here.
def _says(description: str, **constraints: Any) -> Any:  # noqa: ANN401 - pydantic types a field's default by its annotation
    return Field(description=description, **constraints)


class Rack(Statement):
    """One rack."""

    units: Annotated[int, Field(ge=1, le=60)] = _says("Height in rack units (EIA-310).", default=42)
    description: str = _says("Free text.", default="")


class Network(Statement):
    """One VLAN with its prefixes. Exactly one of `prefix` and `prefixes` is stated."""

    vid: Vid = _says("VLAN identifier (IEEE 802.1Q), 2 to 4094; 1 is every switch's factory VLAN.")
    purpose: Purpose = _says(
        "What the network is for. `management`: out-of-band, never on a fabric port. "
        "`control`: Kubernetes, SSH and RPC between servers. "
        "`edge`: the Pis and their clients. `rdma`: RoCEv2 between GPU servers, never routed."
    )
    prefix: str | None = _says("The network's one prefix, such as `192.168.101.0/24` or `fd00:101::/64`.", default=None)
    prefixes: tuple[str, ...] = _says("Several prefixes, in order; a node has the same offset in each.", default=())
    gateway: str | None = _says(
        "The router's address, or `none`. Unstated: the first host address of control and edge networks, none for the others.",
        default=None,
    )
    mtu: Mtu | None = _says(
        "Layer-3 MTU of the hosts, in bytes. Unstated: 9000 for RDMA, 1500 for the others.", default=None
    )
    ranges: dict[Name, str] = _says(
        "Ranges of addresses by name, each `first-last`. A kind of device takes its addresses from the range of its own name "
        "(`switches`, `management-hosts`, `gpu-servers`, `pis`, `rdma`) unless it states `range`.",
        default={},
    )
    dhcp: str | None = _says(
        "The range, `first-last`, that a DHCP server hands out. No device of this file is in it.", default=None
    )
    description: str = _says("Free text.", default="")


class TrafficClass(Statement):
    """One class of traffic. The shares of all classes add up to 100%."""

    share: Percentage = _says("Share of a link under congestion, such as `60%`.")
    dscp: Dscp = _says("DSCP that its packets are marked with, 0 to 47 (48 and above are network control).")
    delivery: Delivery = _says(
        "`lossy`, or `lossless` (PFC; only for `rdma`, on switches with lossless buffers).", default=Delivery.LOSSY
    )


class Device(Statement):
    """What every device with a name of its own may state. The number in its name is its identity: `tor-2` takes the second address."""

    rack: DnsLabel = _says("The rack it stands in.")
    unit: Annotated[int, Field(ge=1)] | None = _says(
        "The lowest rack unit that it fills, counted from 1 at the bottom.", default=None
    )
    platform: Name = _says(
        "Its operating system, from the catalogue; `lab` for a machine that Pinion makes itself.", default="debian-13"
    )
    network: Name = _says("The network of its first interface.")
    range: Name | None = _says(
        "The range of that network to take its address from. Unstated: the range of its kind.", default=None
    )
    address: str | None = _says(
        "Its address in that network, instead of the one that follows from name and range.", default=None
    )
    serial: Annotated[str, StringConstraints(max_length=50)] = _says("Serial number.", default="")
    mac: MacAddress | None = _says("MAC address of its first interface, in quotes.", default=None)
    description: str = _says("Free text.", default="")


class Switch(Device):
    """A top-of-rack switch. `network` is where its management interface lives."""

    platform: Name = _says("Its operating system, from the catalogue; `lab` for a switch that Pinion makes itself.")
    model: Name = _says("Its model, from the catalogue.")
    pair: DnsLabel | None = _says("The other switch of its pair; that one must name this one.", default=None)
    pair_ports: PortList | None = _says(
        "The ports of the pair link, such as `Ethernet55/1-56/1`, in the order of the other side.", default=None
    )
    uplinks: PortList | None = _says("The ports that lead out of the rack.", default=None)


class ManagementHost(Device):
    """A machine that runs the site's own services (NetBox, Kubernetes control plane, CA). `network` is its out-of-band side."""

    profile: Name = _says("Its server profile, from the catalogue; it needs two ports.")
    fabric_network: Name = _says("The network of its leg on the ToR switch.")
    fabric_address: str | None = _says(
        "Its address there, instead of the one that follows from its name.", default=None
    )
    port: SwitchPortList = _says("The switch port of that leg, such as `tor-1 Ethernet16`.")


class PiOverride(Statement):
    """Facts about one node of a group, by its number."""

    serial: Annotated[str, StringConstraints(max_length=50)] = _says("Serial number.", default="")
    mac: MacAddress | None = _says("MAC address, in quotes.", default=None)
    port: SwitchPortList | None = _says(
        "The switch port it is plugged into, instead of the one that follows from its number.", default=None
    )
    address: str | None = _says("Its address, instead of the one that follows from its number.", default=None)


class PiGroup(Statement):
    """A group of equal Raspberry Pis: `pi` with `numbers: 1-8` is pi-01 to pi-08.

    A node's number is its identity: number `first` takes the first address of `range` and the first of `ports`, number `first` + n the
    one n further on. So nothing moves when numbers are added or removed.
    """

    numbers: Numbers = _says("The numbers of the nodes, such as `1-8` or `1-4,7`.")
    first: Annotated[int, Field(ge=1)] = _says("The number that has the first address and the first port.", default=1)
    board: Name = _says("The board, from the catalogue.")
    hat: Name | None = _says("The accelerator HAT on every board, from the catalogue.", default=None)
    rack: DnsLabel = _says("The rack they stand in.")
    platform: Name = _says(
        "Their operating system; `lab` for machines that Pinion makes itself.", default="raspberry-pi-os"
    )
    network: Name = _says("Their network.")
    range: Name = _says("The range of that network that their addresses come from.", default="pis")
    ports: SwitchPortList = _says("The switch ports kept for the group, such as `tor-1 Ethernet1-8`.")
    nodes: dict[NodeNumber, PiOverride] = _says("What differs for single nodes, by number.", default={})
    description: str = _says("Free text.", default="")


class RdmaLinks(Statement):
    """The RoCE links of a GPU server: NIC i of the profile takes the i-th port, counted through `ports` in written order."""

    network: Name = _says("The RDMA network.")
    ports: Annotated[dict[DnsLabel, PortList], Field(min_length=1)] = _says(
        "The ports by switch, such as `{tor-1: Ethernet49/1-52/1}`; as many as the profile has RDMA NICs."
    )
    range: Name = _says("The range of that network that the addresses come from.", default="rdma")


class GpuServer(Device):
    """An NVLink server. `network` is its control network."""

    profile: Name = _says("Its server profile, from the catalogue.")
    port: SwitchPortList = _says("The switch port of its control link, such as `tor-1 Ethernet17`.")
    rdma: RdmaLinks | None = _says("Its RoCE links.", default=None)


class EdgeModel(Statement):
    """How a model runs on a Pi."""

    artefact: Name = _says("Name of the model's artefact.")
    quantisation: Name | None = _says("Quantisation of the weights, such as `Q4_0`.", default=None)
    runtime: Name = _says("The program that runs it.", default="llama.cpp")


class PoolModel(Statement):
    """How a model runs on the NVLink pool."""

    artefact: Name = _says("Name of the model's artefact.")
    runtime: Name = _says("The program that runs it.", default="triton")
    replicas: Annotated[int, Field(ge=1)] = _says("Number of copies.", default=1)


class ServedModel(Statement):
    """A model as clients name it, with its edge form, its pool form, or both."""

    edge: EdgeModel | None = _says("Its form on the Pis.", default=None)
    pool: PoolModel | None = _says("Its form on the NVLink pool.", default=None)


class Routing(Statement):
    """When a request stays on the Pi and when it goes to the pool."""

    prompt_tokens: Annotated[int, Field(ge=1)] | None = _says(
        "Longest prompt that a Pi takes, in tokens.", default=None
    )
    queue_wait: Duration | None = _says("Longest wait in a Pi's queue.", default=None)
    cpu: Percentage | None = _says("CPU use of a Pi above which requests go to the pool.", default=None)
    confidence: Annotated[float, Field(ge=0, le=1)] | None = _says(
        "Confidence, 0 to 1, below which the pool answers.", default=None
    )
    local_tokens: Annotated[int, Field(ge=1)] | None = _says("Longest answer that a Pi gives, in tokens.", default=None)
    speculative_tokens: Annotated[int, Field(ge=0)] | None = _says(
        "Tokens that a Pi drafts while the pool is asked.", default=None
    )
    pool_timeout: Duration | None = _says("Time after which the pool counts as unreachable.", default=None)


class EdgeObjective(Statement):
    """Latency objectives of answers from the Pis."""

    p50: Duration | None = _says("Median latency.", default=None)
    p95: Duration | None = _says("95th percentile of the latency.", default=None)


class SiteObjective(Statement):
    """Objectives of the whole site, as a client sees them."""

    p95: Duration | None = _says("95th percentile of the latency.", default=None)
    availability: Percentage | None = _says("Share of requests that are answered, below 100%.", default=None)


class Objectives(Statement):
    """Service level objectives."""

    edge: EdgeObjective | None = _says("Of answers from the Pis.", default=None)
    site: SiteObjective | None = _says("Of the whole site.", default=None)
    alert_at: Percentage | None = _says("Share of the error budget at which an alert fires.", default=None)


class Kubernetes(Statement):
    """The site's cluster."""

    control_plane: DnsLabel = _says("The management host that serves the API.")
    pis_join: bool = _says("Whether the Pis are nodes of the cluster.", default=True)
    pod_prefix: str = _says("Prefix of the pods' addresses.", default="10.244.0.0/16")
    service_prefix: str = _says("Prefix of the services' addresses.", default="10.96.0.0/16")


class Service(Statement):
    """One Helm release of a chart of ours."""

    chart: DnsLabel = _says("Folder of `charts/`.")
    namespace: DnsLabel = _says("Kubernetes namespace.")
    server: DnsLabel | None = _says("The GPU server that runs it; unstated, any GPU server may.", default=None)
    replicas: Annotated[int, Field(ge=0)] = _says("Number of pods.", default=1)


class Access(Statement):
    """Who may log in."""

    admins: tuple[str, ...] = _says("OpenSSH public keys of the administrators.", default=())


class Site(Statement):
    """One site, whole."""

    version: Literal[1] = _says("Version of the site file's format.")
    site: DnsLabel = _says("Name of the site.")
    region: DnsLabel = _says("Name of its region.")
    description: str = _says("Free text.", default="")
    racks: Annotated[dict[DnsLabel, Rack], Field(min_length=1)] = _says("The racks by name.")
    networks: Annotated[dict[Name, Network], Field(min_length=1)] = _says("The networks by name.")
    traffic_classes: dict[Literal["control", "rdma", "edge_http"], TrafficClass] = _says(
        "The traffic classes.", default={}
    )
    switches: Annotated[dict[DnsLabel, Switch], Field(min_length=1)] = _says("The top-of-rack switches by name.")
    management_hosts: dict[DnsLabel, ManagementHost] = _says("The management hosts by name.", default={})
    pis: dict[DnsLabel, PiGroup] = _says("The groups of Raspberry Pis by name.", default={})
    gpu_servers: dict[DnsLabel, GpuServer] = _says("The GPU servers by name.", default={})
    kubernetes: Kubernetes | None = _says("The site's cluster.", default=None)
    services: dict[DnsLabel, Service] = _says("The Helm releases by name.", default={})
    models: dict[Name, ServedModel] = _says("The models by the name that clients use.", default={})
    routing: Routing | None = _says("When a request stays on the Pi.", default=None)
    objectives: Objectives | None = _says("Service level objectives.", default=None)
    access: Access = _says("Who may log in.", default=Access())
