"""The hardware catalogue: what each board, HAT, switch and server is, and what it cannot do.

The facts live in the YAML files beside this module, one file a kind, each entry with its `source`. This module gives them types.
What a thing cannot do is a field too: no `pcie`, a speed that is not in `speeds`, no `lossless` buffers, a platform that is not in
`platforms`. The rules of the site file read these fields and know no hardware themselves.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from pinion.site.quantities import port_names

#: Speed of a port in Mbit/s.
Speed = Annotated[int, Field(ge=10)]


class Entry(BaseModel):
    """Base of every catalogue entry. *source* names the document that the facts come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str


class Hardware(Entry):
    """A thing with a maker and a model name, as NetBox records them.

    *platforms* lists the operating systems that run on it; the lab's runs as a model of anything, so it is never listed.
    *lab_only* things exist nowhere but in the lab.
    """

    manufacturer: str
    model: str
    platforms: tuple[str, ...] = ()
    lab_only: bool = False


class Port(BaseModel):
    """One network port of a device. *type* is NetBox's interface type slug (``1000base-t``); *speeds* are all that it can run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str
    speeds: Annotated[tuple[Speed, ...], Field(min_length=1)]


class FanStep(BaseModel):
    """One step of a fan curve: from *temperature* on, in 10^-3 degrees Celsius, the fan runs at *speed* (PWM, 0 to 255).

    It goes back one step when the temperature has fallen *hysteresis* below it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Annotated[int, Field(ge=0, le=100_000)]
    hysteresis: Annotated[int, Field(ge=0, le=50_000)]
    speed: Annotated[int, Field(ge=0, le=255)]


class Board(Hardware):
    """A single-board computer. *pcie* tells whether a PCIe HAT can be attached; *memory_mib* its memory, *cores* its processors.

    *max_mtu* is the largest MTU, in bytes, that the maker promises for its port. *fan_curve* are the steps of the fan that its firmware
    drives; empty where it drives none. *usb_current* tells whether its firmware takes ``usb_max_current_enable``. *boot_devices* are those
    that its EEPROM can start from.
    """

    memory_mib: int
    cores: Annotated[int, Field(ge=1)] = 4
    fan_curve: Annotated[tuple[FanStep, ...], Field(max_length=4)] = ()
    usb_current: bool = False
    boot_devices: Annotated[tuple[Literal["sd", "nvme", "usb", "network"], ...], Field(min_length=1)]
    pcie: bool
    architecture: Literal["arm64", "amd64"]
    port: Port
    max_mtu: int


class Hat(Entry):
    """An accelerator HAT. *boards* lists the boards that can take it; *tops* is the maker's figure in 10^12 operations per second.

    *pcie_generation* is the generation of the link that it is made for. *packages* drive it; *conflicts* drive another chip and cannot
    be installed beside them. *packages_from* is the platform whose archive has them.
    """

    manufacturer: str
    model: str
    chip: Literal["hailo-8l", "hailo-8", "hailo-10h"]
    tops: int
    pcie_generation: Literal[2, 3]
    packages: Annotated[tuple[str, ...], Field(min_length=1)]
    conflicts: tuple[str, ...] = ()
    packages_from: str
    boards: Annotated[tuple[str, ...], Field(min_length=1)]


class PortGroup(BaseModel):
    """Equal ports of a switch: *names* as a span (``Ethernet1-48``), their *type* and every *speeds* in Mbit/s they can run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: str
    type: str
    speeds: Annotated[tuple[Speed, ...], Field(min_length=1)]

    def each(self) -> tuple[str, ...]:
        """The single port names of the group."""
        return port_names(self.names)


class EcnThresholds(BaseModel):
    """Where a switch marks packets of a queue (RFC 3168), in kB of it: from *minimum* on, *probability* percent of them at *maximum*."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: Annotated[int, Field(ge=1)]
    maximum: Annotated[int, Field(ge=1)]
    probability: Annotated[int, Field(ge=1, le=100)]


class SwitchModel(Hardware):
    """A switch model. *management_port* is out-of-band. *max_mtu* is the largest layer-2 MTU its ports take, which they have unless told.

    *lossless* tells whether it has the buffers and the PFC that a lossless traffic class needs. *buffer* is its packet memory in kB;
    *ecn* the thresholds for RoCE, None where its queues mark nothing.
    """

    units: int
    management_port: Port
    ports: Annotated[tuple[PortGroup, ...], Field(min_length=1)]
    max_mtu: int
    lossless: bool
    buffer: Annotated[int, Field(ge=1)] | None = None
    ecn: EcnThresholds | None = None


class RdmaPort(Port):
    """A RoCE port of a server. *pci* is the address of its function and *numa_node* the NUMA node that this hangs on, where known."""

    pci: Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")] | None = None
    numa_node: int | None = None


class Nic(Entry):
    """A model of network card. *ring* is the largest number of descriptors a receive or transmit ring can have, None where it has none.

    *coalescing* tells whether its interrupts can be moderated, *adaptive* whether it can do so by itself; *data_centre_bridging* whether
    it knows trust modes and PFC (IEEE 802.1Qbb); *offloads* are the kernel's names of the segmentation offloads that can be switched.
    """

    driver: str
    ring: int | None = None
    coalescing: bool = False
    adaptive: bool = False
    data_centre_bridging: bool = False
    offloads: tuple[str, ...] = ()


class NumaNode(BaseModel):
    """One NUMA node: its *cpus* as the kernel's list (``0-55,112-167``) and how many *gpus* hang on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: str
    gpus: int = 0


class NumaMap(BaseModel):
    """The NUMA nodes of a server in order, and the hardware *threads* a core has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: Literal[1, 2]
    nodes: Annotated[tuple[NumaNode, ...], Field(min_length=1)]


class Server(Hardware):
    """A server profile: *ports* are its ordinary NICs in order, *rdma_ports* its RoCE NICs in order, all of the model *rdma_nic*.

    *numa* is None where no document of the maker says it.
    """

    units: int
    ports: Annotated[tuple[Port, ...], Field(min_length=1)]
    rdma_ports: tuple[RdmaPort, ...] = ()
    rdma_nic: str | None = None
    numa: NumaMap | None = None
    nvswitch: bool = False
    gpus: int = 0
    nvlink: bool = False
    max_mtu: int = 9216


class Evidence(StrEnum):
    """How well a claim is known, weakest first (also the best that a platform can give)."""

    RENDERED = "rendered"
    PARSED = "parsed"
    EMULATED = "emulated"
    MEASURED = "measured"


class WatchdogTimers(BaseModel):
    """The PFC watchdog, in ms: a queue paused for *timeout* is stuck, one that was not for *recovery* is well; looked at every *polling*.

    *action* is what happens to a stuck queue. *guaranteed* is the percentage of a port that a watched queue must have for itself, so that
    one which others starve does not count as stuck; None where the platform knows no such thing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout: Annotated[int, Field(ge=10, le=60_000)]
    polling: Annotated[int, Field(ge=5, le=30_000)]
    recovery: Annotated[int, Field(ge=10, le=60_000)]
    action: Literal["drop", "errdisable"]
    guaranteed: Annotated[int, Field(ge=1, le=100)] | None = None


class PlatformQos(Entry):
    """What a switch system does with classes of traffic unless told otherwise, and what it can be told.

    *traffic_classes* has the traffic class of the packets of each priority (DSCP / 8), 0 to 7: a packet leaves by the transmit queue of its
    traffic class, and on a trunk with the 802.1p priority that has this traffic class. *lossless_priorities* are those that we have it
    pause by PFC, none where our driver does not. *lossless_percent* of its packet memory are for these, and it keeps room for *cable*
    metres of cable; None where it sees to that by itself.
    """

    traffic_classes: Annotated[tuple[Annotated[int, Field(ge=0, le=7)], ...], Field(min_length=8, max_length=8)]
    lossless_priorities: tuple[Annotated[int, Field(ge=0, le=7)], ...] = ()
    watchdog: WatchdogTimers
    lossless_percent: Annotated[int, Field(ge=1, le=99)] | None = None
    cable: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Platform(Entry):
    """An operating system of a device.

    *driver* is the dialect the switch driver speaks. *lab* machines are made by `pinion lab`. *evidence* is the best that a probe of
    it can give. *cnp_dscp* is the DSCP that its RoCE preset keeps for congestion notification packets. *qos* is None for what is no switch.
    *virtual_router_mac* is the MAC address of gateways that switches share, *own_gateway_addresses* tells whether each needs an address of
    its own beside a shared one, and *vlan_names* whether its VLANs can have names.
    """

    name: str
    kind: Literal["switch", "host", "any"]
    driver: Literal["eos", "cumulus"] | None = None
    lab: bool = False
    evidence: Evidence
    cnp_dscp: int | None = None
    virtual_router_mac: Annotated[str, Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")] | None = None
    own_gateway_addresses: bool = False
    vlan_names: bool = True
    qos: PlatformQos | None = None


class Catalog(BaseModel):
    """The whole catalogue, by kind and profile name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boards: Annotated[dict[str, Board], Field(min_length=1)]
    hats: Annotated[dict[str, Hat], Field(min_length=1)]
    switches: Annotated[dict[str, SwitchModel], Field(min_length=1)]
    nics: Annotated[dict[str, Nic], Field(min_length=1)]
    servers: Annotated[dict[str, Server], Field(min_length=1)]
    platforms: Annotated[dict[str, Platform], Field(min_length=1)]


@cache
def load() -> Catalog:
    """The catalogue that ships with this version of Pinion."""
    folder = resources.files(__package__)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return Catalog.model_validate(
        {
            kind: yaml.load((folder / f"{kind}.yml").read_text(encoding="utf-8"), Loader=loader)
            for kind in Catalog.model_fields
        }
    )
