"""What nothing of a site uses yet, for fixes that name it: prefixes, addresses, DSCP values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice

from pinion.site.allocation import last_host
from pinion.site.internet import Address, Prefix
from pinion.site.internet import prefix as ip_network
from pinion.site.model import Delivery
from pinion.site.rules.facts import Facts, Subnet

#: Private prefixes (RFC 1918, RFC 4193) that free ones are looked for in, and how long one of a network customarily is.
_PRIVATE = {4: ("192.168.100.0/22", "192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12"), 6: ("fd00:100::/28", "fd00::/8")}
_LENGTH = {4: 24, 6: 64}
#: What the pods and the services of a cluster customarily have, and larger ones.
_CLUSTER = {
    4: ("10.244.0.0/16", "10.96.0.0/16", "10.128.0.0/9", "172.16.0.0/12"),
    6: ("fd00:244::/48", "fd00:96::/112"),
}
#: The length of the largest private prefix.
_SHORTEST = 8
#: Subnets, or addresses, that are looked at.
_TRIES = 4096


def prefix(facts: Facts, version: int = 4, length: int | None = None) -> Prefix | None:
    """A private prefix of *version* that nothing stated overlaps; None where there is none of so short a *length*."""
    used = list(_stated(facts))
    size = length if length is not None else _LENGTH[version]
    for wide in map(ip_network, _PRIVATE[version]):
        if size >= wide.prefixlen:
            subnets: Iterator[Prefix] = islice(wide.subnets(new_prefix=size), _TRIES)
            for found in subnets:
                if not any(_overlap(found, other) for other in used):
                    return found
    return None


def cluster_prefix(facts: Facts, version: int = 4, shortest: int = 0, longest: int = 128) -> Prefix | None:
    """A prefix for pods or services that nothing stated overlaps, and whose length is from *shortest* to *longest*."""
    used = list(_stated(facts))
    for found in map(ip_network, _CLUSTER[version]):
        if shortest <= found.prefixlen <= longest and not any(_overlap(found, other) for other in used):
            return found
    return None


def _stated(facts: Facts) -> Iterator[Prefix]:
    """Every prefix of the site, sound or not."""
    cluster = facts.site.kubernetes
    texts = [text for network in facts.site.networks.values() for text in (network.prefix or "", *network.prefixes)]
    for text in [*texts, *((cluster.pod_prefix, cluster.service_prefix) if cluster is not None else ())]:
        with suppress(ValueError):
            found = ip_network(text, strict=False)
            if found.prefixlen >= _SHORTEST:  # a shorter one is refused itself, and would leave nothing free
                yield found


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one.version == other.version and one.overlaps(other)


def address(subnet: Subnet, taken: Collection[Address]) -> Address | None:
    """The highest address of *subnet* that is in no range, no router's, and not among the *taken*; None where there is none near."""
    spans = [*subnet.ranges.values(), *([subnet.dhcp] if subnet.dhcp is not None else [])]
    for home in subnet.prefixes:
        highest = last_host(home)
        for below in range(min(_TRIES, home.num_addresses - 2)):
            found = highest - below
            inside = any(
                span.start.version == found.version and int(span.start) <= int(found) <= int(span.end) for span in spans
            )
            if not inside and found not in taken and found not in subnet.routers.values():
                return found
    return None


def dscp(facts: Facts, name: str) -> int | None:
    """A DSCP for the traffic class *name* whose priority no other class has and every switch can give it; None where there is none."""
    classes = facts.site.traffic_classes
    lossless = any(stated.delivery is Delivery.LOSSLESS for other, stated in classes.items() if other == name)
    used = {stated.dscp >> 3 for other, stated in classes.items() if other != name}
    for priority in (3, 2, 1, 4, 5) if lossless else (2, 1, 4, 5, 3, 0):
        if priority not in used and (not lossless or all(priority in can for can in _can_pause(facts))):
            return priority * 8 + (2 if priority == 3 else 0)
    return None


def _can_pause(facts: Facts) -> Iterator[Collection[int]]:
    """The priorities that each switch can pause, as far as that is known."""
    for switch in facts.site.switches.values():
        platform = facts.catalog.platforms.get(switch.platform)
        if platform is not None and platform.qos is not None:
            yield platform.qos.lossless_priorities
