"""Where a node's address and port come from: pure arithmetic that the rules of the site file and the plan share.

An address belongs to a node's identity: the first address of its range plus its number. So inserting, removing or reordering
nodes in the site file moves nobody else's address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pinion.site.internet import Address, Prefix, ip_address
from pinion.site.internet import prefix as ip_network
from pinion.site.model import Network, Purpose

#: Range names that a kind of device uses when it does not say `range`, with the host offsets (first, last) that the range
#: has in a network that does not state it. The last of None means: to the end of the prefix.
DEFAULT_RANGES: dict[str, tuple[int, int | None]] = {
    "switches": (2, 9),
    "management-hosts": (10, 15),
    "gpu-servers": (16, 63),
    "pis": (64, None),
    "rdma": (16, None),
}

_TRAILING_NUMBER = re.compile(r"(\d+)$")
_NATURAL = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class AddressRange:
    """An inclusive span of addresses inside one prefix."""

    start: Address
    end: Address

    def at(self, ordinal: int) -> Address:
        """The address number *ordinal*, counted from 0; `IndexError` when the range is exhausted."""
        found = self.start + ordinal
        if ordinal < 0 or int(found) > int(self.end):
            size = int(self.end) - int(self.start) + 1
            raise IndexError(f"range {self.start}-{self.end} has {size} addresses, number {ordinal + 1} was asked for")
        return found


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that counts digits as numbers, so that ``pi-9`` comes before ``pi-10``."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _NATURAL.split(name) if part)


def identity_number(name: str) -> int:
    """The number in a name (``nv-1`` is 1, ``tor-12`` is 12); 1 when the name ends in no number."""
    match = _TRAILING_NUMBER.search(name)
    return int(match[1]) if match else 1


@lru_cache(maxsize=4096)
def _prefix(text: str) -> Prefix:
    return ip_network(text)


def prefixes(network: Network) -> tuple[Prefix, ...]:
    """The prefixes of *network* in written order; `ValueError` when one is not a prefix or has host bits set."""
    return tuple(_prefix(text) for text in ((network.prefix,) if network.prefix is not None else network.prefixes))


@lru_cache(maxsize=4096)
def parse_range(written: str) -> AddressRange:
    """``192.168.101.10-192.168.101.99`` as an `AddressRange`; `ValueError` when it is not two addresses of one family in order."""
    first, separator, last = written.partition("-")
    if not separator:
        raise ValueError(f"'{written}' is not a range; write the first and the last address with a hyphen between them")
    start, end = ip_address(first.strip()), ip_address(last.strip())
    if start.version != end.version:
        raise ValueError(f"'{written}' mixes IPv4 and IPv6")
    if int(end) < int(start):
        raise ValueError(f"'{written}' runs backwards; write {end}-{start}")
    return AddressRange(start=start, end=end)


def last_host(prefix: Prefix) -> Address:
    """The highest address of *prefix* that a host may have (RFC 3021 for /31; IPv6 has no broadcast address)."""
    if prefix.version == 4 and prefix.prefixlen < 31:
        return prefix.broadcast_address - 1
    return prefix.broadcast_address


def address_range(network: Network, name: str) -> AddressRange:
    """The range *name* of *network*: the stated one, else the default layout in the first prefix.

    Raises `KeyError` when it is neither stated nor a default, `ValueError` when the prefix is too small for the default.
    """
    if name in network.ranges:
        return parse_range(network.ranges[name])
    first, last = DEFAULT_RANGES[name]
    prefix = prefixes(network)[0]
    start = prefix.network_address + first if first < prefix.num_addresses else None
    limit = last_host(prefix)
    if start is None or int(start) > int(limit):
        raise ValueError(f"{prefix} is too small for the default range '{name}'; state ranges: {{{name}: first-last}}")
    end = limit if last is None else min(start + (last - first), limit)
    return AddressRange(start=start, end=end)


def spread(address: Address, known: Iterable[Prefix]) -> Iterator[tuple[Prefix, Address | None]]:
    """The addresses of the node that has *address*: that one in its own prefix, and the same offset in every other of *known*.

    None stands for a prefix that has no host address at that offset. An address outside of all prefixes yields nothing.
    """
    every = tuple(known)
    home = next((prefix for prefix in every if address in prefix), None)
    if home is None:
        return
    yield home, address
    offset = int(address) - int(home.network_address)
    for prefix in every:
        if prefix != home:
            found = prefix.network_address + offset if offset < prefix.num_addresses else None
            yield prefix, found if found is not None and int(found) <= int(last_host(prefix)) else None


def gateway(network: Network) -> dict[Prefix, Address | None]:
    """The router's address of each prefix.

    Stated on the network, or by purpose: control and edge networks are routed by the ToR on the first host address; RDMA and management
    networks are not routed.
    """
    found: dict[Prefix, Address | None] = {}
    for prefix in prefixes(network):
        if network.gateway == "none":
            found[prefix] = None
        elif network.gateway is not None and ip_address(network.gateway) in prefix:
            found[prefix] = ip_address(network.gateway)
        else:
            routed = network.purpose in {Purpose.CONTROL, Purpose.EDGE}
            found[prefix] = prefix.network_address + 1 if routed else None
    return found


def node_name(group: str, number: int) -> str:
    """The name of number *number* of a Pi group: two digits at least, so ``pi`` and 1 is ``pi-01``."""
    return f"{group}-{number:02d}"
