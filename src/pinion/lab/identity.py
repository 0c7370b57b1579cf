"""Who a lab machine is: host name, addresses, SSH keys, known names. What an image and a site's provisioning would give real hardware.

The functions that make text are pure; `Keys` holds the instance's SSH keys on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.lab import apt
from pinion.lab.processes import run
from pinion.lab.recipes import USER, USER_ID
from pinion.lab.state import InstanceState, write_file
from pinion.lab.topology import Node, Topology
from pinion.render.networkd import network_file

#: TCP port of the package proxy on the management host (the customary one of apt-cacher-ng).
PROXY_PORT = 3142


@dataclass(frozen=True)
class MachineFile:
    """A file in a machine, whole. *owner* and *group* are numeric."""

    content: str
    mode: int = 0o644
    owner: int = 0
    group: int = 0


def hosts_file(topology: Topology, own: Node | None = None) -> str:
    """``/etc/hosts`` with every name of the plan. A machine's own name is its own address, as Debian has it."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{address} {name}" for name, address in topology.hosts]
    if own is not None and own.address is None:
        lines.append(f"127.0.1.1 {own.name}")
    return "\n".join(lines) + "\n"


def machine_id(instance: str, machine: str) -> str:
    """A machine-id(5) that stays over boots and new images: 32 hexadecimal digits with the version bits of a random UUID."""
    digest = bytearray(hashlib.sha256(f"pinion/{instance}/{machine}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    return digest.hex()


def machine_files(
    topology: Topology,
    node: Node,
    *,
    instance: str,
    authorized_key: str,
    host_key: str,
    mirrors: apt.Mirrors,
    sshd: bool,
) -> dict[str, MachineFile]:
    """Every file that gives *node* its identity, by path."""
    files = {
        "/etc/hostname": MachineFile(f"{node.name}\n"),
        "/etc/hosts": MachineFile(hosts_file(topology, node)),
        "/etc/machine-id": MachineFile(f"{machine_id(instance, node.name)}\n", 0o444),
        "/etc/resolv.conf": MachineFile(
            "# Names come from /etc/hosts: there is no DNS server.\noptions timeout:1 attempts:1\n"
        ),
        "/etc/apt/sources.list.d/debian.sources": MachineFile(mirrors.proxied_sources()),
        f"/home/{USER}/.ssh/authorized_keys": MachineFile(f"{authorized_key}\n", 0o600, USER_ID, USER_ID),
    }
    for index, port in enumerate(node.ports):
        if port.addresses:
            # at once, as a configured host has them
            text = network_file(port.name, port.addresses, port.gateways, port.mtu, without_carrier=True)
            files[f"/etc/systemd/network/{10 + index}-{port.name}.network"] = MachineFile(text)
    proxy = topology.management_host
    if proxy is not None and proxy.address is not None:
        host = f"[{proxy.address}]" if ":" in proxy.address else proxy.address
        files["/etc/apt/apt.conf.d/20-proxy"] = MachineFile(f'Acquire::http::Proxy "http://{host}:{PROXY_PORT}";\n')
    if sshd:
        files["/etc/ssh/ssh_host_ed25519_key"] = MachineFile(host_key, 0o600)
    return files


class Keys:
    """The SSH keys of an instance: the operator's key, one host key a machine, and the known_hosts that ties them."""

    def __init__(self, state: InstanceState) -> None:
        self._folder = state.ssh

    @property
    def private(self) -> Path:
        """The operator's private key."""
        return self._folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """All host keys, for strict checking."""
        return self._folder / "known_hosts"

    def host_key(self, machine: str) -> Path:
        """The private host key of a machine."""
        return self._folder / "host_keys" / machine

    def public(self, private: Path) -> str:
        """Type and key of the public half, without comment."""
        return " ".join(Path(f"{private}.pub").read_text().split()[:2])

    def make(self, topology: Topology) -> None:
        """Have every key, and the known_hosts of *topology*. Keys are kept over every `up`; only `purge` ends them."""
        (self._folder / "host_keys").mkdir(mode=0o700, exist_ok=True)
        self._make(self.private, f"{USER}@lab")
        for node in topology.nodes:
            self._make(self.host_key(node.name), node.name)
        write_file(self.known_hosts, self._known(topology.nodes))

    def _make(self, path: Path, comment: str) -> None:
        """Generate aside, the public half first in place, so that a private key without its public half is never seen."""
        if path.exists() and Path(f"{path}.pub").exists():
            return
        new = path.with_name(f".{path.name}.new")
        for stale in (new, Path(f"{new}.pub")):
            stale.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(new)])
        Path(f"{new}.pub").replace(f"{path}.pub")
        new.replace(path)

    def _known(self, nodes: Sequence[Node]) -> str:
        lines = []
        for node in nodes:
            names = [node.name, *(address.partition("/")[0] for port in node.ports for address in port.addresses)]
            lines.append(f"{','.join(names)} {self.public(self.host_key(node.name))}\n")
        return "".join(lines)
