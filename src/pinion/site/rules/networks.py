"""VLAN identifiers, prefixes, ranges and gateways. Fills `Facts.subnets` with what makes sense."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network

from pinion.site.allocation import AddressRange, gateway, last_host
from pinion.site.errors import Path
from pinion.site.internet import Address, Prefix, ip_address
from pinion.site.internet import prefix as ip_network
from pinion.site.model import Network, Purpose
from pinion.site.rules import free
from pinion.site.rules.facts import Facts, Subnet

#: IEEE 802.1Q (dot1qVlanStaticName): a VLAN's name has at most 32 characters.
MAXIMUM_VLAN_NAME = 32
#: Every switch has this VLAN from the factory, with every port that nobody configured in it.
FACTORY_VLAN = 1
#: Prefixes longer than these hold no useful number of hosts.
LONGEST = {4: 30, 6: 126}
#: The length of 10.0.0.0/8, the largest private prefix.
SHORTEST = 8
#: RFC 6890, RFC 4291: this network, loopback, link-local, multicast, reserved; unspecified and loopback, mapped, link-local, multicast.
_SPECIAL_4 = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))
_SPECIAL_6 = tuple(map(IPv6Network, ("::/127", "::ffff:0:0/96", "fe80::/10", "ff00::/8")))


def check(facts: Facts) -> None:
    """All rules about networks."""
    _identifiers(facts)
    for name, network in facts.site.networks.items():
        subnet = Subnet(name, network, network)
        facts.subnets[name] = subnet
        subnet.prefixes = tuple(_prefixes(facts, name, network))
        _gateway(facts, subnet)
        _ranges(facts, subnet)
    _overlaps(facts)


def _identifiers(facts: Facts) -> None:
    first: dict[int, str] = {}
    used = {network.vid for network in facts.site.networks.values()}
    for name, network in facts.site.networks.items():
        path: Path = ("networks", name, "vid")
        if network.vid == FACTORY_VLAN:
            facts.report.on("NET-003", path, name=name, free=_free_vid(used, 2))
        elif network.vid in first:
            unused = _free_vid(used, network.vid)
            facts.report.on("NET-001", path, name=name, vid=network.vid, other=first[network.vid], free=unused)
        first.setdefault(network.vid, name)
        if len(name) > MAXIMUM_VLAN_NAME:
            facts.report.on_key("NET-004", ("networks", name), name=name, limit=MAXIMUM_VLAN_NAME)


def _free_vid(used: Collection[int], least: int) -> int | None:
    """The first VLAN identifier from *least* on, else the first of all, that is not *used*."""
    return next((vid for vid in (*range(least, 4095), *range(2, 4095)) if vid not in used), None)


# --- prefixes -------------------------------------------------------------------------------------------------------------


def _prefixes(facts: Facts, name: str, network: Network) -> Iterator[Prefix]:
    path: Path = ("networks", name)
    if network.prefix is not None and network.prefixes:
        facts.report.on_key("NET-006", (*path, "prefixes"), name=name)
    if network.prefix is None and not network.prefixes:
        # One that was refused for its shape is stated all the same.
        if not any(facts.has((*path, key)) for key in ("prefix", "prefixes")):
            facts.report.on_key("NET-005", path, name=name, free=free.prefix(facts))
        return
    written: list[tuple[Path, str]] = []
    if network.prefix is not None:
        written.append(((*path, "prefix"), network.prefix))
    else:
        written += [((*path, "prefixes", index), text) for index, text in enumerate(network.prefixes)]
    for where, text in written:
        prefix = _prefix(facts, where, text)
        if prefix is not None:
            yield prefix


def _prefix(facts: Facts, path: Path, text: str) -> Prefix | None:
    try:
        if "/" not in text:
            raise ValueError("no length")
        prefix = ip_network(text, strict=False)
    except ValueError:
        facts.report.on("NET-007", path, text=text, free=_meant(text) or free.prefix(facts))
        return None
    if (
        str(prefix.network_address) != text.partition("/")[0]
        and ip_address(text.partition("/")[0]) != prefix.network_address
    ):
        facts.report.on("NET-008", path, text=text, prefix=prefix)
    if is_special(prefix):
        facts.report.on("NET-009", path, text=text, free=free.prefix(facts, prefix.version))
        return None
    if prefix.prefixlen > LONGEST[prefix.version] or prefix.prefixlen < SHORTEST:
        longest = LONGEST[prefix.version]
        near = free.prefix(facts, prefix.version, min(max(prefix.prefixlen, SHORTEST), longest))
        facts.report.on("NET-010", path, text=text, longest=longest, free=near)
        return None
    return prefix


def _meant(text: str) -> Prefix | None:
    """The prefix that *text* is but for its spaces, or for a mask in the place of a length; None where it is another mistake."""
    address, _, mask = text.replace(" ", "").partition("/")
    with suppress(ValueError):
        length = IPv4Network(f"0.0.0.0/{mask}").prefixlen if "." in mask else int(mask)
        found = ip_network(f"{address}/{length}", strict=False)
        if not is_special(found) and SHORTEST <= length <= LONGEST[found.version]:
            return found
    return None


def is_special(prefix: Prefix) -> bool:
    """Whether no host may have an address of *prefix*, or only on one link.

    Multicast, loopback and link-local prefixes, and 0.0.0.0/8 and 240.0.0.0/4 (RFC 6890); what holds one of them is one too.
    """
    if prefix.version == 4:
        return any(prefix.overlaps(special) for special in _SPECIAL_4)
    return any(prefix.overlaps(special) for special in _SPECIAL_6)


def _overlaps(facts: Facts) -> None:
    """Overlaps within and across networks: sorted by start, one overlaps another exactly when it overlaps the furthest so far."""
    spans = []
    for name, subnet in facts.subnets.items():
        stated = subnet.network.prefix is not None
        for index, prefix in enumerate(subnet.prefixes):
            path: Path = ("networks", name, "prefix") if stated else ("networks", name, "prefixes", index)
            spans.append((prefix.version, int(prefix.network_address), -prefix.num_addresses, prefix, name, path))
    spans.sort(key=lambda span: span[:3])
    furthest: tuple[int, int, int, Prefix, str, Path] | None = None
    for span in spans:
        version, start, size = span[:3]
        if furthest is not None and furthest[0] == version and start < furthest[1] - furthest[2]:
            one, other = sorted((span, furthest), key=lambda each: facts.report.line(each[5]))
            code = "NET-012" if one[4] == other[4] else "NET-011"
            unused = free.prefix(facts, other[3].version, other[3].prefixlen)
            facts.report.on(code, other[5], prefix=other[3], name=other[4], other=one[3], where=one[4], free=unused)
            if start - size <= furthest[1] - furthest[2]:
                continue
        furthest = span


# --- gateways -------------------------------------------------------------------------------------------------------------


def _gateway(facts: Facts, subnet: Subnet) -> None:
    stated, path = subnet.network.gateway, ("networks", subnet.name, "gateway")
    sound: dict[str, object] = {"prefix": None, "prefixes": tuple(map(str, subnet.prefixes)), "ranges": {}}
    if stated is not None and stated != "none" and not _gateway_is_sound(facts, subnet, stated, path):
        sound["gateway"] = "none"
    subnet.sound = subnet.network.model_copy(update=sound)
    subnet.routers = gateway(subnet.sound)


def _gateway_is_sound(facts: Facts, subnet: Subnet, stated: str, path: Path) -> bool:
    try:
        router = ip_address(stated)
    except ValueError:
        facts.report.on("NET-020", path, text=stated)
        return False
    if not subnet.prefixes:
        return False
    home = subnet.home(router)
    if home is None:
        facts.report.on("NET-021", path, gateway=router, prefixes=" and ".join(map(str, subnet.prefixes)))
        return False
    if not is_host(router, home):
        facts.report.on("NET-022", path, gateway=router, prefix=home, first=home.network_address + 1)
        return False
    if subnet.network.purpose is Purpose.RDMA:
        facts.report.on("NET-024", path, name=subnet.name)
        return False
    return True


def is_host(address: Address, prefix: Prefix) -> bool:
    """Whether a host may have *address*: neither the network's own nor the broadcast address."""
    return int(prefix.network_address) < int(address) <= int(last_host(prefix))


# --- ranges ---------------------------------------------------------------------------------------------------------------


def _ranges(facts: Facts, subnet: Subnet) -> None:
    placed: list[tuple[AddressRange, str, Path]] = []
    for name, text in subnet.network.ranges.items():
        path: Path = ("networks", subnet.name, "ranges", name)
        if name == "dhcp":
            facts.report.on_key("NET-018", path)
        span = _range(facts, subnet, path, text)
        if span is None:
            subnet.unsound.add(name)
        else:
            subnet.ranges[name] = span
            placed.append((span, name, path))
    if subnet.network.dhcp is not None:
        path = ("networks", subnet.name, "dhcp")
        subnet.dhcp = _range(facts, subnet, path, subnet.network.dhcp)
        if subnet.dhcp is not None:
            placed.append((subnet.dhcp, "dhcp", path))
    placed.sort(key=lambda each: (each[0].start.version, int(each[0].start)))
    furthest: tuple[AddressRange, str, Path] | None = None
    for span, name, path in placed:
        if (
            furthest is None
            or furthest[0].start.version != span.start.version
            or int(span.start) > int(furthest[0].end)
        ):
            furthest = span, name, path
            continue
        other, other_name, other_path = furthest
        code = "NET-019" if ("networks", subnet.name, "dhcp") in {path, other_path} else "NET-017"
        facts.report.on(code, path, name=name, span=_text(span), other=other_name, where=_text(other))
        if int(span.end) > int(other.end):
            furthest = span, name, path


def _range(facts: Facts, subnet: Subnet, path: Path, text: str) -> AddressRange | None:
    """The range that *text* is, when it makes sense in *subnet*."""
    first, _, last = (part.strip() for part in text.partition("-"))
    try:
        start, end = ip_address(first), ip_address(last)
    except ValueError:
        facts.report.on("NET-013", path, text=text)
        return None
    if start.version != end.version:
        facts.report.on("NET-014", path, text=text)
        return None
    if int(end) < int(start):
        facts.report.on("NET-015", path, text=text, start=end, end=start)
        return None
    if not subnet.prefixes:
        return None
    home = subnet.home(start)
    if home is None or end not in home:
        facts.report.on("NET-016", path, text=text, prefixes=" or ".join(map(str, subnet.prefixes)))
        return None
    span = AddressRange(start=start, end=end)
    if not (is_host(start, home) and is_host(end, home)):
        lowest, highest = home.network_address + 1, last_host(home)
        router = subnet.routers.get(home)
        least = lowest + 1 if router == lowest else lowest
        part = f"{max(start, least)}-{min(end, highest)}"
        facts.report.on("NET-025", path, text=text, prefix=home, first=lowest, last=highest, part=part)
        return None
    router = subnet.routers.get(home)
    if router is not None and int(start) <= int(router) <= int(end):
        facts.report.on("NET-023", path, gateway=router, text=text, part=_beside(span, router))
        return None
    return span


def _beside(span: AddressRange, router: Address) -> str | None:
    """The larger part of *span* that does not hold *router*; None where there is none."""
    below, above = int(router) - int(span.start), int(span.end) - int(router)
    if below == above == 0:
        return None
    return f"{router + 1}-{span.end}" if above >= below else f"{span.start}-{router - 1}"


def _text(span: AddressRange) -> str:
    return f"{span.start}-{span.end}"
