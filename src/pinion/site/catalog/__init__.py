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


class Board(Hardware):
    """A single-board computer. *pcie* tells whether a PCIe HAT can be attached; *memory_mib* its memory.

    *max_mtu* is the largest MTU, in bytes, that the maker promises for its port.
    """

    memory_mib: int
    pcie: bool
    architecture: Literal["arm64", "amd64"]
    port: Port
    max_mtu: int


class Hat(Entry):
    """An accelerator HAT. *boards* lists the boards that can take it; *tops* is the maker's figure in 10^12 operations per second."""

    manufacturer: str
    model: str
    chip: Literal["hailo-8l", "hailo-8", "hailo-10h"]
    tops: int
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


class SwitchModel(Hardware):
    """A switch model. *management_port* is out-of-band. *max_mtu* is the largest layer-2 MTU its ports take.

    *lossless* tells whether it has the buffers and the PFC that a lossless traffic class needs.
    """

    units: int
    management_port: Port
    ports: Annotated[tuple[PortGroup, ...], Field(min_length=1)]
    max_mtu: int
    lossless: bool


class Server(Hardware):
    """A server profile: *ports* are its ordinary NICs in order, *rdma_ports* its RoCE NICs in order."""

    units: int
    ports: Annotated[tuple[Port, ...], Field(min_length=1)]
    rdma_ports: tuple[Port, ...] = ()
    gpus: int = 0
    nvlink: bool = False
    max_mtu: int = 9216


class Evidence(StrEnum):
    """How well a claim is known, weakest first (also the best that a platform can give)."""

    RENDERED = "rendered"
    PARSED = "parsed"
    EMULATED = "emulated"
    MEASURED = "measured"


class Platform(Entry):
    """An operating system of a device.

    *driver* is the dialect the switch driver speaks. *lab* machines are made by `pinion lab`. *evidence* is the best that a probe of
    it can give. *cnp_dscp* is the DSCP that its RoCE preset keeps for congestion notification packets.
    """

    name: str
    kind: Literal["switch", "host", "any"]
    driver: Literal["eos"] | None = None
    lab: bool = False
    evidence: Evidence
    cnp_dscp: int | None = None


class Catalog(BaseModel):
    """The whole catalogue, by kind and profile name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boards: Annotated[dict[str, Board], Field(min_length=1)]
    hats: Annotated[dict[str, Hat], Field(min_length=1)]
    switches: Annotated[dict[str, SwitchModel], Field(min_length=1)]
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
