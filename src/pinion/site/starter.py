"""A first site file for a person to go on from: commented, valid, and no more than a few answers long."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from string import Template

from pinion.site.catalog import load as load_catalog
from pinion.site.errors import SiteErrors
from pinion.site.loader import charts_folder, read

#: The starter puts the Pis on the first ports of one ToR switch, the other devices on the ports after them.
MOST_PIS = {True: 8, False: 40}


@dataclass(frozen=True, slots=True)
class Answers:
    """What a starter file is made from.

    Attributes:
        name: the site's name, a DNS label.
        region: the region's name, a DNS label.
        lab: whether every device is made by Pinion on this machine.
        pis: number of Raspberry Pis, 1 to 8 in a lab and to 40 on a real switch.
        board: their board, from the catalogue.
        hat: their HAT, from the catalogue; None for none.
        profile: the GPU server's profile, from the catalogue; None for no GPU server.
        prefix: an IPv4 prefix of /22 or shorter; every network is a /24 of it.
    """

    name: str
    region: str = "local"
    lab: bool = True
    pis: int = 4
    board: str = "raspberry-pi-5-8gb"
    hat: str | None = "ai-hat-plus-2"
    profile: str | None = "lab-gpu-server"
    prefix: str = "10.80.0.0/16"


def write(path: Path, text: str) -> None:
    """Write *text* to *path*, whole or not at all.

    Raises `FileExistsError` when there is something already (also when it came to be in the meantime).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        # A link, unlike a rename, never replaces what is there.
        os.link(name, path)
    finally:
        Path(name).unlink()


def text(answers: Answers, path: Path) -> str:
    """The site file for *answers*, as it will be read at *path*; `SiteErrors` when they make no valid site."""
    made = _filled(answers, path)
    site, problems = read(made.encode(), str(path), charts=charts_folder(path))
    if site is None:
        raise SiteErrors(problems)
    return made


_TEMPLATE = Template("""\
# The site $name. It says only what there is; addresses, VLANs of ports and configuration follow from it.
# docs/reference/site-file.md explains every key; `pinion site check $name` finds every mistake.
version: 1
site: $name
region: $region

racks:
  rack-1: {units: 42}

networks:  # purpose decides the defaults: gateway, MTU, and which devices may be on it
  management: {vid: 99, purpose: management, prefix: $management}
  control: {vid: 100, purpose: control, prefix: $control}
  edge: {vid: 101, purpose: edge, prefix: $edge}
  rdma: {vid: 102, purpose: rdma, prefix: $rdma, mtu: 9000}

traffic_classes:  # shares of a link under congestion
  control: {share: 20%, dscp: 16}
  rdma: {share: 60%, dscp: 26, delivery: $delivery}
  edge_http: {share: 20%, dscp: 0}

switches:
  tor-1:
    platform: $switch_platform
    model: $switch
    rack: rack-1
    unit: 42
    network: management

management_hosts:  # NetBox, the Kubernetes control plane, the certificate authority
  mgmt-1:
    platform: $host_platform
    profile: $management_profile
    rack: rack-1
    unit: 41
    network: management  # its out-of-band side
    fabric_network: control
    port: tor-1 $management_port

pis:
  pi:
    numbers: $numbers  # pi-01 and on; a node's number decides its address and its port for good
    board: $board
    $hat
    rack: rack-1
    platform: $pi_platform
    network: edge
    ports: tor-1 Ethernet1-$last  # kept for the numbers 1 to $last
""")

_GPU_SERVER = Template("""
gpu_servers:
  nv-1:
    platform: $host_platform
    profile: $gpu_profile
    rack: rack-1
    unit: 20
    network: control
    port: tor-1 $gpu_port
    rdma: {network: rdma, ports: {tor-1: $rdma_ports}}

concerns:
  nic_tuning: {}  # the RDMA NICs treat traffic classes as the switches do
""")

_END = """
kubernetes: {control_plane: mgmt-1}

access:
  admins: []  # OpenSSH public keys, such as: [ssh-ed25519 AAAA… name@host]
"""

#: What a lab and real hardware differ in.
_LAB = {
    "delivery": "lossy",
    "switch_platform": "lab",
    "switch": "lab-tor-16",
    "host_platform": "lab",
    "pi_platform": "lab",
    "management_profile": "lab-management-host",
    "management_port": "Ethernet16",
    "gpu_port": "Ethernet9",
    "rdma_ports": "Ethernet10-11",
}
_HARDWARE = {
    "delivery": "lossless",
    "switch_platform": "arista-eos",
    "switch": "7050SX3-48YC8",
    "host_platform": "debian-13",
    "pi_platform": "raspberry-pi-os",
    "management_profile": "generic-1u-2x10gbase-t",
    "management_port": "Ethernet48",
    "gpu_port": "Ethernet41",
    "rdma_ports": "Ethernet49/1-56/1",
}


def _filled(answers: Answers, path: Path) -> str:
    words = {
        **(_LAB if answers.lab else _HARDWARE),
        **dict(zip(("management", "control", "edge", "rdma"), map(str, _networks(answers.prefix)), strict=True)),
        "name": answers.name,
        "region": answers.region,
        "numbers": f"1-{answers.pis}" if answers.pis > 1 else "1",
        "board": answers.board,
        "hat": f"hat: {answers.hat}" if answers.hat else "# hat: none",
        "last": str(MOST_PIS[answers.lab]),
        "gpu_profile": str(answers.profile),
    }
    server = _GPU_SERVER.substitute(words) if answers.profile else ""
    return f"{_editor(path)}{_TEMPLATE.substitute(words)}{server}{_END}"


def _networks(prefix: str) -> tuple[IPv4Network, ...]:
    """Four equal networks of *prefix*: /24 where there is room; `ValueError` when it is not an IPv4 prefix of /22 or shorter."""
    whole = IPv4Network(prefix)
    if whole.prefixlen > 22:
        raise ValueError(f"{prefix} is too small; four networks of /24 need a /22 or shorter")
    return tuple(IPv4Network((int(whole.network_address) + 256 * index, 24)) for index in _third_octets(whole))


def _third_octets(whole: IPv4Network) -> tuple[int, ...]:
    """The /24 with the number of the VLAN where there is one (so that 10.80.101.0 is VLAN 101), else the first four."""
    return (99, 100, 101, 102) if whole.prefixlen <= 17 else (0, 1, 2, 3)


def _editor(path: Path) -> str:
    """The line by which editors find the schema, where the schema is in reach of *path*."""
    for folder in path.resolve().parents:
        found = folder / "docs" / "reference" / "site.schema.json"
        if found.is_file():
            return f"# yaml-language-server: $schema={os.path.relpath(found, path.resolve().parent)}\n"
    return ""


def boards() -> list[str]:
    """Names of the boards to choose from."""
    return sorted(load_catalog().boards)


def hats(board: str) -> list[str]:
    """Names of the HATs that *board* takes."""
    return [name for name, hat in load_catalog().hats.items() if board in hat.boards]


def profiles(*, lab: bool) -> list[str]:
    """Names of the profiles of GPU servers, of the lab or real ones."""
    return [name for name, server in load_catalog().servers.items() if server.nvlink and server.lab_only is lab]
