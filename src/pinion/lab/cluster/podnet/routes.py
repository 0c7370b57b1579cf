"""From the cluster's nodes to this machine's routes. Pure.

Every node has a prefix of its own for its pods, given by Kubernetes (``spec.podCIDR``). A node in a network that this machine is attached
to is a plain next hop; any other is reached by VXLAN to its own address, through the site's routers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: Name of the VXLAN link, its network identifier and its UDP port (the Linux kernel's own default).
LINK, VNI, PORT = "pods", 77, 8472
#: Room that VXLAN over IPv4 takes of a packet (RFC 7348, section 5: outer IP, UDP, VXLAN and inner Ethernet header).
OVERHEAD = 50
#: Marks routes as ours (rtnetlink's protocol numbers above 4 are free for routing programs).
PROTOCOL = 77


@dataclass(frozen=True, order=True)
class Node:
    """A node as the API server knows it. *prefix* is None until Kubernetes has given it one."""

    name: str
    address: str
    prefix: str | None


@dataclass(frozen=True, order=True)
class Hop:
    """The way to one node's pods. *overlay*: by VXLAN, else directly."""

    prefix: str
    address: str
    overlay: bool

    @property
    def gateway(self) -> str:
        """The next hop: the node itself, or the first address of its prefix, which no pod has."""
        return str(ipaddress.ip_network(self.prefix).network_address) if self.overlay else self.address

    @property
    def mac(self) -> str:
        """The hardware address of the node's VXLAN link: locally administered, and fixed by its prefix."""
        return link_mac(self.prefix)


def link_mac(prefix: str) -> str:
    """The hardware address of the VXLAN link of the node that has *prefix*."""
    packed = ipaddress.ip_network(prefix).network_address.packed[-4:]
    return ":".join(f"{octet:02x}" for octet in (0x02, 0x70, *packed))


def node_of(item: Mapping[str, object]) -> Node | None:
    """A node from an object of the API; None when it has no address yet."""
    metadata, spec, status = (_mapping(item.get(key)) for key in ("metadata", "spec", "status"))
    addresses = status.get("addresses")
    for address in addresses if isinstance(addresses, list) else []:
        if address.get("type") == "InternalIP":
            prefix = spec.get("podCIDR")
            return Node(str(metadata["name"]), str(address["address"]), str(prefix) if prefix else None)
    return None


def hops(nodes: Iterable[Node], own: str, attached: Sequence[str]) -> list[Hop]:
    """The way to the pods of every node but *own*; *attached* are the networks of this machine's interfaces."""
    networks = [ipaddress.ip_network(network) for network in attached]
    return sorted(
        Hop(node.prefix, node.address, not any(ipaddress.ip_address(node.address) in network for network in networks))
        for node in nodes
        if node.name != own and node.prefix
    )


def hub_address(pod_prefix: str) -> str:
    """The address that the API server's machine, which has no pods, has among the pods: the last one, of the last node that could be."""
    return str(ipaddress.ip_network(pod_prefix)[-2])


def hub_hop(pod_prefix: str, address: str, attached: Sequence[str]) -> Hop | None:
    """The way back to the API server's machine at *address*: by VXLAN, as its packets came; None where it is a neighbour.

    Without it answers of pods would go through the site's routers, which know nothing of pods.
    """
    if any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in attached):
        return None
    return Hop(f"{hub_address(pod_prefix)}/32", address, overlay=True)


def network_configuration(prefix: str, mtu: int) -> dict[str, object]:
    """What the container runtime does for each pod of the node that has *prefix*: a link of its own, routed, an address of *prefix*."""
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "mtu": mtu,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": prefix}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    # gone with a reboot, like the pods that hold them
                    "dataDir": "/run/podnet/addresses",
                },
            }
        ],
    }


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
