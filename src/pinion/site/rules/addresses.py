"""Every address of every device: it exists, it is inside, it is free. The arithmetic is `pinion.site.allocation`, as in the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pinion.site.allocation import DEFAULT_RANGES, AddressRange, address_range, last_host, node_name, spread
from pinion.site.errors import Path
from pinion.site.internet import Address, ip_address
from pinion.site.model import PiGroup, Purpose
from pinion.site.rules import free
from pinion.site.rules.fabric import ALLOWED
from pinion.site.rules.facts import Facts, Subnet, ordinal
from pinion.site.rules.networks import is_host

#: Section of the site file to the range its devices take their addresses from.
KIND_RANGE = {"switches": "switches", "management_hosts": "management-hosts", "gpu_servers": "gpu-servers"}

#: As difflib counts likeness: "pi" and "raspis" are near "pis", "cameras" is not.
_NEAR = 0.6


def check(facts: Facts) -> None:
    """All rules about addresses."""
    claims = _Claims(facts)
    _named(facts, claims)
    _gateways(facts, claims)
    _rdma(facts, claims)
    _pis(facts, claims)


@dataclass(frozen=True, slots=True)
class _Claim:
    owner: str
    path: Path
    stated: bool


class _Claims:
    """Who has which address, across the whole site."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._taken: dict[Address, _Claim] = {}
        self._told: set[tuple[Path, Path]] = set()
        self._short: set[tuple[str, Path]] = set()

    def put(self, subnet: Subnet, address: Address, claim: _Claim) -> None:
        """Give *address*, and the same offset in the network's further prefixes, to *claim*."""
        for prefix, found in spread(address, subnet.prefixes):
            if found is not None:
                self._put(subnet, found, claim)
            elif (subnet.name, claim.path) not in self._short:
                self._short.add((subnet.name, claim.path))
                self._facts.report.on("ADDR-013", claim.path, owner=claim.owner, address=address, prefix=prefix)

    def free(self, subnet: Subnet) -> Address | None:
        """An address of *subnet* that is in no range and that nobody has so far."""
        return free.address(subnet, self._taken)

    def _put(self, subnet: Subnet, address: Address, claim: _Claim) -> None:
        report = self._facts.report
        other = self._taken.setdefault(address, claim)
        if other is not claim:
            if (claim.path, other.path) not in self._told:
                self._told.add((claim.path, other.path))
                code = "ADDR-004" if claim.stated and other.stated else "ADDR-005"
                said = {"owner": claim.owner, "address": address, "other": other.owner}
                report.on(code, claim.path, **said, free=self.free(subnet))
        elif address in subnet.routers.values():
            report.on("ADDR-006", claim.path, owner=claim.owner, address=address, name=subnet.name)
        elif (
            subnet.dhcp is not None
            and subnet.dhcp.start.version == address.version
            and int(subnet.dhcp.start) <= int(address) <= int(subnet.dhcp.end)
        ):
            report.on("ADDR-007", claim.path, owner=claim.owner, address=address, name=subnet.name)


def _subnet(facts: Facts, path: Path, name: str) -> Subnet | None:
    """The usable network *name*; an unknown one is reported at *path*."""
    allowed = ALLOWED[str(path[0]), ".".join(map(str, path[2:]))]

    def fits(network: str) -> bool:
        stated = facts.site.networks.get(network)
        return stated is not None and stated.purpose in allowed

    if not facts.known("NET-030", path, name, "networks", facts.subnets, fits=fits):
        return None
    subnet = facts.subnets[name]
    return subnet if subnet.prefixes else None


def _stated(facts: Facts, claims: _Claims, subnet: Subnet, path: Path, text: str) -> Address | None:
    """The address that a device states, when it makes sense in *subnet*."""
    try:
        address = ip_address(text)
    except ValueError:
        facts.report.on("ADDR-001", path, text=text, free=_without_mask(text, subnet) or claims.free(subnet))
        return None
    home = subnet.home(address)
    if home is None:
        known = " or ".join(map(str, subnet.prefixes))
        facts.report.on("ADDR-002", path, address=address, name=subnet.name, prefixes=known, free=claims.free(subnet))
        return None
    if not is_host(address, home):
        said = {"address": address, "prefix": home, "first": home.network_address + 1, "last": last_host(home)}
        facts.report.on("ADDR-003", path, **said, free=claims.free(subnet))
        return None
    return address


def _without_mask(text: str, subnet: Subnet) -> Address | None:
    """The address of *subnet* that *text* is but for its mask; None where it is another mistake."""
    try:
        found = ip_address(text.partition("/")[0].strip())
    except ValueError:
        return None
    home = subnet.home(found)
    return found if home is not None and is_host(found, home) else None


def _span(facts: Facts, subnet: Subnet, path: Path, name: str) -> AddressRange | None:
    """The range *name* of *subnet*, stated or by default."""
    if name in subnet.ranges:
        return subnet.ranges[name]
    if name in subnet.unsound:
        return None
    if name not in DEFAULT_RANGES:
        known = [
            *subnet.network.ranges,
            *(default for default in DEFAULT_RANGES if default not in subnet.network.ranges),
        ]
        facts.report.on("ADDR-009", path, name=name, network=subnet.name, hint=facts.report.hint(name, known))
        return None
    meant = _misspelt(facts, subnet, name)
    if meant is not None:
        facts.report.on_key(
            "NET-026", ("networks", subnet.name, "ranges", meant), name=meant, network=subnet.name, default=name
        )
        return None
    try:
        return address_range(subnet.sound, name)
    except ValueError:
        facts.report.on("ADDR-010", path, name=name, network=subnet.name, prefix=subnet.prefixes[0])
        return None


def _misspelt(facts: Facts, subnet: Subnet, name: str) -> str | None:
    """The stated range, taken by nobody, that was probably meant to be the range *name*, which is not stated."""
    taken = {*DEFAULT_RANGES, *_ranges_of(facts, subnet.name)}
    spare = {stated.casefold().replace("_", "-"): stated for stated in subnet.network.ranges if stated not in taken}
    near = get_close_matches(name, spare, n=1, cutoff=_NEAR) or [word for word in spare if _is_part(word, name)]
    return spare[near[0]] if near else None


def _is_part(word: str, name: str) -> bool:
    """Whether *word* is how one says *name* for short: `gpus` or `servers` for `gpu-servers`."""
    short = word.removesuffix("s")
    return len(short) > 2 and any(part.removesuffix("s") == short for part in name.split("-"))


def _ranges_of(facts: Facts, network: str) -> Iterator[str]:
    """The ranges of *network* that devices name."""
    for _, _, device in facts.named():
        if device.network == network and device.range is not None:
            yield device.range
    for server in facts.site.gpu_servers.values():
        if server.rdma is not None and server.rdma.network == network:
            yield server.rdma.range
    for group in facts.site.pis.values():
        if group.network == network:
            yield group.range


def _place(
    facts: Facts, claims: _Claims, subnet: Subnet, path: Path, span: AddressRange, position: int, owner: str
) -> bool:
    """Give *owner* the address number *position* of *span*; False when there is none."""
    try:
        address = span.at(position)
    except IndexError:
        size = int(span.end) - int(span.start) + 1
        facts.report.on(
            "ADDR-008", path, owner=owner, span=f"{span.start}-{span.end}", size=size, position=position + 1
        )
        return False
    claims.put(subnet, address, _Claim(owner, path, stated=False))
    return True


# --- devices with names of their own --------------------------------------------------------------------------------------


def _named(facts: Facts, claims: _Claims) -> None:
    for section, name, device in facts.named():
        path: Path = (section, name)
        _interface(facts, claims, path, (device.network, "network"), (device.address, "address"), device.range)
    for name, host in facts.site.management_hosts.items():
        path = ("management_hosts", name)
        _interface(
            facts, claims, path, (host.fabric_network, "fabric_network"), (host.fabric_address, "fabric_address"), None
        )


def _interface(
    facts: Facts,
    claims: _Claims,
    path: Path,
    network: tuple[str, str],
    address: tuple[str | None, str],
    span_name: str | None,
) -> None:
    """One interface of a named device: *network* and *address* are each a value and the key that states it."""
    section, name = str(path[0]), str(path[1])
    subnet = _subnet(facts, (*path, network[1]), network[0])
    if subnet is None:
        return
    text, key = address
    if text is not None:
        found = _stated(facts, claims, subnet, (*path, key), text)
        if found is not None:
            claims.put(subnet, found, _Claim(name, (*path, key), stated=True))
        return
    span = _span(
        facts, subnet, (*path, "range") if span_name else (*path, network[1]), span_name or KIND_RANGE[section]
    )
    if span is None:
        return
    if ordinal(name) < 0:
        facts.report.on_key("ADDR-012", path, name=name)
        return
    _place(facts, claims, subnet, (*path, network[1]), span, ordinal(name), name)


def _gateways(facts: Facts, claims: _Claims) -> None:
    """The addresses that switches have beside the gateways that they share, where their platform needs them."""
    for name, switch in facts.site.switches.items():
        platform = facts.catalog.platforms.get(switch.platform)
        if platform is None or not platform.own_gateway_addresses or len(facts.site.switches) < 2 or ordinal(name) < 0:
            continue
        for subnet in facts.subnets.values():
            if subnet.network.purpose is Purpose.MANAGEMENT or not any(subnet.routers.values()):
                continue
            path: Path = ("switches", name, "platform")
            span = _span(facts, subnet, path, KIND_RANGE["switches"])
            if span is not None:
                _place(facts, claims, subnet, path, span, ordinal(name), f"{name} in VLAN {subnet.network.vid}")


def _rdma(facts: Facts, claims: _Claims) -> None:
    for name, server in facts.site.gpu_servers.items():
        profile = facts.catalog.servers.get(server.profile)
        if server.rdma is None:
            continue
        path: Path = ("gpu_servers", name, "rdma")
        subnet = _subnet(facts, (*path, "network"), server.rdma.network)
        if subnet is None or profile is None:
            continue
        span = _span(facts, subnet, (*path, "range"), server.rdma.range)
        if span is None or ordinal(name) < 0:
            continue
        for index, port in enumerate(profile.rdma_ports):
            position = ordinal(name) * len(profile.rdma_ports) + index
            if not _place(facts, claims, subnet, (*path, "network"), span, position, f"{name} {port.name}"):
                break


# --- Pis ------------------------------------------------------------------------------------------------------------------


def _pis(facts: Facts, claims: _Claims) -> None:
    for name, group, members in facts.pis():
        path: Path = ("pis", name)
        present = frozenset(members)
        for number in group.nodes:
            if number not in present and not facts.guessed((*path, "numbers")):
                facts.report.on_key(
                    "ADDR-014", (*path, "nodes", number), number=number, name=name, numbers=group.numbers
                )
        subnet = _subnet(facts, (*path, "network"), group.network)
        if subnet is None:
            continue
        stated = {number: override.address for number, override in group.nodes.items() if override.address is not None}
        for number, text in stated.items():
            where = (*path, "nodes", number, "address")
            found = _stated(facts, claims, subnet, where, text) if number in present else None
            if found is not None:
                claims.put(subnet, found, _Claim(node_name(name, number), where, stated=True))
        _by_number(facts, claims, subnet, path, group, tuple(number for number in members if number not in stated))


def _by_number(
    facts: Facts, claims: _Claims, subnet: Subnet, path: Path, group: PiGroup, members: tuple[int, ...]
) -> None:
    """The addresses of a group that follow from range and number."""
    name = str(path[1])
    if members and members[0] < group.first:
        facts.report.on("ADDR-011", (*path, "numbers"), number=members[0], first=group.first)
    span = _span(facts, subnet, (*path, "range"), group.range)
    if span is None:
        return
    for number in members:
        position = number - group.first
        if position >= 0 and not _place(
            facts, claims, subnet, (*path, "numbers"), span, position, node_name(name, number)
        ):
            break
