"""Addresses and prefixes as a site file may write them: what every device of the site means alike. Pure.

Python takes forms that a switch, a firewall and NetBox do not: an IPv6 address with the zone of one machine (``fe80::1%eth0``,
RFC 4007), an IPv4 address in IPv6's clothes (``::ffff:192.0.2.1``, ``::192.0.2.1``, RFC 4291), and a prefix with a mask instead of a length
(``192.0.2.0/255.255.255.0``). All are refused here, as `ValueError`.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from ipaddress import ip_address as any_address

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network

#: RFC 4291, 2.5.5.1 (given up there) and 2.5.5.2.
_COMPATIBLE, _MAPPED = IPv6Network("::/96"), IPv6Network("::ffff:0:0/96")
#: RFC 1122: the limited broadcast address, which no host has.
_BROADCAST = IPv4Address("255.255.255.255")
_HIGHEST_PORT = 65535
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def ip_address(text: str) -> Address:
    """The address *text*; `ValueError` for anything else, for a zone, and for a mapped address."""
    if "%" in text:
        raise ValueError(f"'{text}' names a zone, which means something on one machine only")
    found = any_address(text)
    if isinstance(found, IPv6Address) and (found in _MAPPED or (found in _COMPATIBLE and int(found) > 1)):
        raise ValueError(f"'{text}' is the IPv4 address {IPv4Address(int(found) & 0xFFFFFFFF)}, written as one of IPv6")
    return found


def server_address(text: str) -> Address:
    """The address *text* as one that a server can have; `ValueError` for the unspecified, multicast and broadcast ones too."""
    found = ip_address(text)
    if found.is_unspecified or found.is_multicast or found == _BROADCAST:
        raise ValueError(f"'{text}' is no address that a server has")
    return found


def prefix(text: str, *, strict: bool = True) -> Prefix:
    """The prefix *text*; `ValueError` for anything else, for a zone, for mapped addresses, and (*strict*) for host bits."""
    if "%" in text:
        raise ValueError(f"'{text}' names a zone, which means something on one machine only")
    length = text.partition("/")[2]
    if "/" in text and not (length.isascii() and length.isdigit()):
        raise ValueError(f"'{text}' does not end in the prefix's length in bits, such as /24")
    found = ip_network(text, strict=strict)
    if isinstance(found, IPv6Network) and found.overlaps(_MAPPED) and found.prefixlen >= _MAPPED.prefixlen:
        raise ValueError(f"'{text}' is a prefix of IPv4, written as one of IPv6")
    return found


def is_host(text: str) -> bool:
    """Whether *text* can be a host of a URL: an IPv6 address in brackets, an IPv4 address, or a name (RFC 1123, RFC 3986)."""
    try:
        if text.startswith("["):
            return text.endswith("]") and isinstance(server_address(text[1:-1]), IPv6Address)
        labels = text.removesuffix(".").split(".")
        # What ends in a number is an address to those who fetch, also where the number is hexadecimal (WHATWG URL, 3.5).
        if _NUMBER.fullmatch(labels[-1]):
            return isinstance(server_address(text), IPv4Address)
    except ValueError:
        return False
    return len(text) <= 253 and all(map(_LABEL.fullmatch, labels))


def is_this_host(text: str) -> bool:
    """Whether the ``host`` or ``host:port`` *text* of a URL is whoever asks."""
    host = text if text.endswith("]") else text.partition(":")[0]
    if host.removesuffix(".").lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_server(text: str) -> bool:
    """Whether *text* can be the ``host`` or ``host:port`` of a URL."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        return is_host(text)
    return is_host(host) and port.isdigit() and port.isascii() and 1 <= int(port[:9]) <= _HIGHEST_PORT
