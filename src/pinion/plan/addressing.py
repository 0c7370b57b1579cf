"""VLANs, prefixes, ranges and the address of every interface.

An address is a function of the node's identity (its name's number, or its number in its group) and of the range; see
`pinion.site.allocation`. Every further prefix of the network gives the same host offset, so a dual-stack node has one offset.
"""

from __future__ import annotations

from ipaddress import ip_address

from pinion.plan.model import PrefixPlan, RangePlan, VlanPlan
from pinion.site.allocation import (
    address_range,
    gateway,
    identity_number,
    natural,
    parse_range,
    prefixes,
    spread,
)
from pinion.site.catalog import Platform
from pinion.site.model import Network, Purpose, Site

#: Layer-3 MTU of a network that states none (IEEE 802.3 for ordinary networks; RoCE sites run 9000 so that a 4096-byte RDMA MTU fits).
DEFAULT_MTU = {Purpose.MANAGEMENT: 1500, Purpose.CONTROL: 1500, Purpose.EDGE: 1500, Purpose.RDMA: 9000}


def network_mtu(network: Network) -> int:
    """The layer-3 MTU of hosts on *network*, in bytes."""
    return network.mtu if network.mtu is not None else DEFAULT_MTU[network.purpose]


def vlans(site: Site) -> tuple[VlanPlan, ...]:
    """Every network of the site as a VLAN, by VLAN identifier."""
    return tuple(_vlan(name, network) for name, network in sorted(site.networks.items(), key=lambda item: item[1].vid))


def _vlan(name: str, network: Network) -> VlanPlan:
    routers = gateway(network)
    return VlanPlan(
        name=name,
        vid=network.vid,
        purpose=network.purpose,
        description=network.description,
        mtu=network_mtu(network),
        fabric=network.purpose is not Purpose.MANAGEMENT,
        prefixes=tuple(
            PrefixPlan(prefix=str(prefix), family=prefix.version, gateway=None if router is None else str(router))
            for prefix, router in routers.items()
        ),
        ranges=_ranges(network),
        origin=f"networks.{name}",
    )


def _ranges(network: Network) -> tuple[RangePlan, ...]:
    stated = [(name, parse_range(written), False) for name, written in network.ranges.items()]
    if network.dhcp is not None:
        stated.append(("dhcp", parse_range(network.dhcp), True))
    found = []
    for name, span, dhcp in sorted(stated, key=lambda item: (item[1].start.version, int(item[1].start))):
        inside = next(str(prefix) for prefix in prefixes(network) if span.start in prefix)
        found.append(RangePlan(name=name, start=str(span.start), end=str(span.end), prefix=inside, dhcp=dhcp))
    return tuple(found)


def addresses(network: Network, range_name: str, ordinal: int, stated: str | None = None) -> tuple[str, ...]:
    """The addresses, each with its mask, of the node *ordinal* (from 0) of range *range_name*; *stated* overrides the first.

    Raises `IndexError` when the range is exhausted, `KeyError` when there is no such range.
    """
    first = ip_address(stated) if stated is not None else address_range(network, range_name).at(ordinal)
    found = spread(first, prefixes(network))
    return tuple(f"{address}/{prefix.prefixlen}" for prefix, address in found if address is not None)


def named_addresses(
    network: Network, name: str, kind_range: str, range_name: str | None, stated: str | None
) -> tuple[str, ...]:
    """The addresses of a named device: its number is the one that its name ends in."""
    return addresses(network, range_name or kind_range, identity_number(name) - 1, stated)


def own_gateway_addresses(site: Site, platform: Platform, switch: str, network: Network) -> tuple[str, ...]:
    """The addresses that *switch* has in *network* beside the gateway that it shares; none where its *platform* needs none."""
    shared = len(site.switches) > 1 and any(gateway(network).values()) and network.purpose is not Purpose.MANAGEMENT
    return named_addresses(network, switch, "switches", None, None) if shared and platform.own_gateway_addresses else ()


def host(address: str) -> str:
    """An address without its mask."""
    return address.partition("/")[0]


def ordered(names: list[str]) -> list[str]:
    """Names in natural order."""
    return sorted(names, key=natural)
