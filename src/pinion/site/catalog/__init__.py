"""The hardware catalogue: what each board, HAT, switch and server is, and what it cannot do.

The facts live in the YAML files beside this module, one file a kind, each entry with its `source`. This module gives them types.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from pinion.site.quantities import port_names


class Entry(BaseModel):
    """Base of every catalogue entry. *source* names the document that the facts come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str


class Hardware(Entry):
    """A thing with a maker and a model name, as NetBox records them."""

    manufacturer: str
    model: str


class Port(BaseModel):
    """One network port of a device. *type* is NetBox's interface type slug (for example ``1000base-t``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str


class Board(Hardware):
    """A single-board computer. *pcie* tells whether a PCIe HAT can be attached; *memory_mib* its memory."""

    memory_mib: int
    pcie: bool
    architecture: Literal["arm64", "amd64"]
    port: Port
    max_mtu: int


class Hat(Hardware):
    """An accelerator HAT. *boards* lists the boards that can take it."""

    chip: str
    boards: tuple[str, ...]


class PortGroup(BaseModel):
    """Equal ports of a switch: *names* as a span (``Ethernet1-48``), their *type* and every *speeds* in Mbit/s they can run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: str
    type: str
    speeds: tuple[int, ...]

    def each(self) -> tuple[str, ...]:
        """The single port names of the group."""
        return port_names(self.names)


class SwitchModel(Hardware):
    """A switch model. *management_port* is out-of-band. *max_mtu* is the largest layer-2 MTU its ports take."""

    units: int
    management_port: Port
    ports: tuple[PortGroup, ...]
    max_mtu: int
    lossless: bool


class Server(Hardware):
    """A server profile: *ports* are its ordinary NICs in order, *rdma_ports* its RoCE NICs in order."""

    units: int
    ports: tuple[Port, ...]
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

    *driver* is the dialect the switch driver speaks. *lab* machines are made by `pinion lab`. *evidence* is the best that a probe of it can give.
    """

    name: str
    kind: Literal["switch", "host", "any"]
    driver: Literal["eos"] | None = None
    lab: bool = False
    evidence: Evidence


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
    return Catalog.model_validate(
        {kind: yaml.safe_load((folder / f"{kind}.yml").read_text(encoding="utf-8")) for kind in Catalog.model_fields}
    )
