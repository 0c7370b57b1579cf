"""The Site: what the user states about one site, typed and frozen. Nothing derived is stored in it.

Invariants:

* Unknown keys are refused everywhere (`extra="forbid"`), so a misspelt key is an error and never a silent default.
* Values stay as the person wrote them (``60%``, ``1-8``); `pinion.site.quantities` gives them their meaning.
* No rule that needs more than one object is checked here: those live in `pinion.site.rules` and are reported together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

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


#: RFC 1123 label: lower-case letters, digits and inner hyphens, at most 63 characters.
DNS_LABEL = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
#: Name of a VLAN, a range or a model artefact: letters, digits, dot, underscore and hyphen, at most 64 characters.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#: EUI-48 in the colon form.
MAC_ADDRESS = r"^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"

DnsLabel = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
Name = Annotated[str, StringConstraints(pattern=NAME)]
MacAddress = Annotated[str, StringConstraints(pattern=MAC_ADDRESS)]
Duration = Annotated[str, BeforeValidator(_text), _parsed_by(quantities.seconds)]
Percentage = Annotated[str, BeforeValidator(_text), _parsed_by(quantities.fraction)]
Numbers = Annotated[str, BeforeValidator(_text), _parsed_by(quantities.numbers)]
SwitchPortList = Annotated[str, _parsed_by(quantities.switch_ports)]
PortList = Annotated[str, _parsed_by(quantities.port_names)]
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


class Rack(Statement):
    """One rack; *units* is its height in rack units (EIA-310)."""

    units: Annotated[int, Field(ge=1, le=60)] = 42
    description: str = ""


class Network(Statement):
    """One VLAN with its prefixes.

    Exactly one of *prefix* and *prefixes* is stated. *ranges* maps a range's name to ``first-last``; a kind of device takes its
    addresses from the range of the same name unless it says `range`. *gateway* is an address, or ``none``; unstated, the purpose decides.
    """

    vid: Vid
    purpose: Purpose
    prefix: str | None = None
    prefixes: tuple[str, ...] = ()
    gateway: str | None = None
    mtu: Mtu | None = None
    ranges: dict[Name, str] = {}
    dhcp: str | None = None
    description: str = ""


class TrafficClass(Statement):
    """One class of traffic: *share* of the link under congestion, the *dscp* it is marked with, its *delivery*."""

    share: Percentage
    dscp: Dscp
    delivery: Delivery = Delivery.LOSSY


class Device(Statement):
    """What every named device may state. *address* overrides the address that follows from name and range."""

    rack: DnsLabel
    unit: Annotated[int, Field(ge=1)] | None = None
    platform: Name | None = None
    network: Name
    range: Name | None = None
    address: str | None = None
    serial: Annotated[str, StringConstraints(max_length=50)] = ""
    mac: MacAddress | None = None
    description: str = ""


class Switch(Device):
    """A top-of-rack switch. *network* is where its management interface lives; *uplinks* and *pair* name its other links."""

    platform: Name
    model: Name
    pair: DnsLabel | None = None
    pair_ports: PortList | None = None
    uplinks: PortList | None = None


class ManagementHost(Device):
    """A machine that runs the site's own services (NetBox, Kubernetes control plane, CA).

    *network* is its out-of-band side; *fabric_network* with *port* is its leg on the ToR.
    """

    profile: Name
    fabric_network: Name
    fabric_address: str | None = None
    port: SwitchPortList


class PiOverride(Statement):
    """Facts about one node of a group, by its number."""

    serial: Annotated[str, StringConstraints(max_length=50)] = ""
    mac: MacAddress | None = None
    unit: Annotated[int, Field(ge=1)] | None = None
    port: SwitchPortList | None = None
    address: str | None = None


class PiGroup(Statement):
    """A group of equal Raspberry Pis: ``pi`` with numbers 1-8 is pi-01 … pi-08.

    A node's number is its identity: number *first* takes the first address of *range* and the first of *ports*, number *first* + n the
    one n further on. So nothing moves when numbers are added or removed.
    """

    numbers: Numbers
    first: Annotated[int, Field(ge=1)] = 1
    board: Name
    hat: Name | None = None
    rack: DnsLabel
    platform: Name = "raspberry-pi-os"
    network: Name
    range: Name = "pis"
    ports: SwitchPortList
    nodes: dict[int, PiOverride] = {}
    description: str = ""


class RdmaLinks(Statement):
    """The RoCE links of a GPU server: NIC *i* of the profile takes the *i*-th port, counted through *ports* in written order."""

    network: Name
    ports: dict[DnsLabel, PortList]
    range: Name = "rdma"


class GpuServer(Device):
    """An NVLink server. *port* is its control link; *rdma* its RoCE links."""

    profile: Name
    port: SwitchPortList
    rdma: RdmaLinks | None = None


class EdgeModel(Statement):
    """How a model runs on a Pi."""

    artefact: Name
    quantisation: Name | None = None
    runtime: Name = "llama.cpp"


class PoolModel(Statement):
    """How a model runs on the NVLink pool."""

    artefact: Name
    runtime: Name = "triton"
    replicas: Annotated[int, Field(ge=1)] = 1


class ServedModel(Statement):
    """A model as clients name it, with its edge form, its pool form, or both."""

    edge: EdgeModel | None = None
    pool: PoolModel | None = None


class Routing(Statement):
    """When a request stays on the Pi and when it goes to the pool."""

    prompt_tokens: Annotated[int, Field(ge=1)] | None = None
    queue_wait: Duration | None = None
    cpu: Percentage | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    local_tokens: Annotated[int, Field(ge=1)] | None = None
    speculative_tokens: Annotated[int, Field(ge=0)] | None = None
    pool_timeout: Duration | None = None


class EdgeObjective(Statement):
    """Latency objectives of answers given by a Pi."""

    p50: Duration | None = None
    p95: Duration | None = None


class SiteObjective(Statement):
    """Objectives of the site as clients see it."""

    p95: Duration | None = None
    availability: Percentage | None = None


class Objectives(Statement):
    """Service level objectives; *alert_at* is the share of the error budget at which an alert fires."""

    edge: EdgeObjective | None = None
    site: SiteObjective | None = None
    alert_at: Percentage | None = None


class Kubernetes(Statement):
    """The site's cluster. *control_plane* names the management host that serves the API; *pis_join* makes the Pis nodes of it."""

    control_plane: DnsLabel
    pis_join: bool = True
    pod_prefix: str = "10.244.0.0/16"
    service_prefix: str = "10.96.0.0/16"


class Service(Statement):
    """One Helm release of a chart of ours. *server* names the GPU server that runs it; unstated, any GPU server may."""

    chart: DnsLabel
    namespace: DnsLabel
    server: DnsLabel | None = None
    replicas: Annotated[int, Field(ge=0)] = 1


class Access(Statement):
    """Who may log in: OpenSSH public keys of the administrators."""

    admins: tuple[str, ...] = ()


class Site(Statement):
    """One site, whole. See `docs/reference/site-file.md`, generated from this model."""

    version: Literal[1]
    site: DnsLabel
    region: DnsLabel
    description: str = ""
    racks: Annotated[dict[DnsLabel, Rack], Field(min_length=1)]
    networks: Annotated[dict[Name, Network], Field(min_length=1)]
    traffic_classes: dict[Literal["control", "rdma", "edge_http"], TrafficClass] = {}
    switches: Annotated[dict[DnsLabel, Switch], Field(min_length=1)]
    management_hosts: dict[DnsLabel, ManagementHost] = {}
    pis: dict[DnsLabel, PiGroup] = {}
    gpu_servers: dict[DnsLabel, GpuServer] = {}
    kubernetes: Kubernetes | None = None
    services: dict[DnsLabel, Service] = {}
    models: dict[Name, ServedModel] = {}
    routing: Routing | None = None
    objectives: Objectives | None = None
    access: Access = Access()
