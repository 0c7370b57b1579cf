"""What the fabric must carry: networks with the right purpose, an MTU that fits every hop, traffic classes that the switches can do."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.site.errors import Path
from pinion.site.fixes import one_of
from pinion.site.model import Delivery, Purpose
from pinion.site.quantities import fraction
from pinion.site.rules import free
from pinion.site.rules.facts import Facts

#: Who may be on which network. A switch's management port and a management host's first port are out-of-band.
ALLOWED: dict[tuple[str, str], frozenset[Purpose]] = {
    ("switches", "network"): frozenset({Purpose.MANAGEMENT, Purpose.CONTROL}),
    ("management_hosts", "network"): frozenset({Purpose.MANAGEMENT}),
    ("management_hosts", "fabric_network"): frozenset({Purpose.CONTROL, Purpose.EDGE}),
    ("gpu_servers", "network"): frozenset({Purpose.CONTROL, Purpose.EDGE}),
    ("gpu_servers", "rdma.network"): frozenset({Purpose.RDMA}),
    ("pis", "network"): frozenset({Purpose.EDGE, Purpose.CONTROL}),
}

#: RFC 8200: every IPv6 link carries 1280 bytes.
IPV6_MINIMUM_MTU = 1280
#: An RDMA MTU of 4096 bytes with its RoCEv2 headers (IPv6 40, UDP 8, BTH and extended headers) needs about 4200 bytes (NVIDIA, RoCE guide).
RDMA_MINIMUM_MTU = 4200
#: RFC 2474: DSCP 48 and above are class selectors 6 and 7, network control; the RoCE presets keep priorities 6 and 7 for CNP.
NETWORK_CONTROL = 48


def check(facts: Facts) -> None:
    """All rules about purposes, MTU and traffic classes."""
    memberships = list(_memberships(facts))
    for path, network, _, _ in memberships:
        _purpose(facts, path, network)
    members: dict[str, list[tuple[str, int | None]]] = {name: [] for name in facts.site.networks}
    for _, network, owner, limit in memberships:
        members.setdefault(network, []).append((owner, limit))
    for name in facts.site.networks:
        _mtu(facts, name, members[name])
    _classes(facts)
    _lossless(facts)


def _memberships(facts: Facts) -> Iterator[tuple[Path, str, str, int | None]]:
    """Every interface's network: the key that states it, the network, its owner, and the largest MTU that the owner's port takes."""
    for name, switch in facts.site.switches.items():
        yield ("switches", name, "network"), switch.network, name, None
    for name, host in facts.site.management_hosts.items():
        profile = facts.catalog.servers.get(host.profile)
        limit = profile.max_mtu if profile is not None else None
        yield ("management_hosts", name, "network"), host.network, name, limit
        yield ("management_hosts", name, "fabric_network"), host.fabric_network, name, limit
    for name, server in facts.site.gpu_servers.items():
        profile = facts.catalog.servers.get(server.profile)
        limit = profile.max_mtu if profile is not None else None
        yield ("gpu_servers", name, "network"), server.network, name, limit
        if server.rdma is not None:
            yield ("gpu_servers", name, "rdma", "network"), server.rdma.network, name, limit
    for name, group in facts.site.pis.items():
        board = facts.catalog.boards.get(group.board)
        yield ("pis", name, "network"), group.network, f"pis.{name}", board.max_mtu if board is not None else None


def _purpose(facts: Facts, path: Path, network: str) -> None:
    if network not in facts.site.networks or facts.guessed(("networks", network, "purpose")):
        return
    purpose = facts.site.networks[network].purpose
    allowed = ALLOWED[str(path[0]), ".".join(map(str, path[2:]))]
    if purpose not in allowed:
        wanted = " or ".join(sorted(allowed))
        fitting = [name for name, stated in facts.site.networks.items() if stated.purpose in allowed]
        fix = one_of(fitting, f"name a network whose purpose is {wanted}: {{}}")
        facts.report.on("NET-031", path, name=network, purpose=purpose, owner=path[1], fix=fix)


# --- MTU ------------------------------------------------------------------------------------------------------------------


def _mtu(facts: Facts, name: str, members: list[tuple[str, int | None]]) -> None:
    network = facts.site.networks[name]
    if network.mtu is None:
        return
    path, mtu = ("networks", name, "mtu"), network.mtu
    if network.purpose is not Purpose.MANAGEMENT:
        for switch_name, switch in facts.site.switches.items():
            model = facts.catalog.switches.get(switch.model)
            if model is not None and mtu > model.max_mtu:
                facts.report.on("MTU-001", path, mtu=mtu, switch=switch_name, model=model.model, limit=model.max_mtu)
                break
    for owner, limit in members:
        if limit is not None and mtu > limit:
            facts.report.on("MTU-002", path, mtu=mtu, owner=owner, limit=limit)
            break
    subnet = facts.subnets.get(name)
    if mtu < IPV6_MINIMUM_MTU and subnet is not None and any(prefix.version == 6 for prefix in subnet.prefixes):
        facts.report.on("MTU-003", path, mtu=mtu, minimum=IPV6_MINIMUM_MTU)
    elif network.purpose is Purpose.RDMA and mtu < RDMA_MINIMUM_MTU:
        facts.report.on("MTU-004", path, mtu=mtu, minimum=RDMA_MINIMUM_MTU)


# --- traffic classes ------------------------------------------------------------------------------------------------------


def _classes(facts: Facts) -> None:
    classes = facts.site.traffic_classes
    if not classes:
        return
    by_dscp: dict[int, str] = {}
    by_priority: dict[int, str] = {}
    said: dict[str, object]
    known = {name: stated for name, stated in classes.items() if not facts.guessed(("traffic_classes", name, "dscp"))}
    lossless = {stated.dscp >> 3: name for name, stated in known.items() if stated.delivery is Delivery.LOSSLESS}
    for name, stated in known.items():
        path: Path = ("traffic_classes", name, "dscp")
        other = by_dscp.setdefault(stated.dscp, name)
        priority = stated.dscp >> 3
        if other != name:
            facts.report.on("CLASS-002", path, name=name, dscp=stated.dscp, other=other, free=free.dscp(facts, name))
        elif stated.dscp >= NETWORK_CONTROL:
            unused = free.dscp(facts, name)
            facts.report.on("CLASS-005", path, name=name, dscp=stated.dscp, limit=NETWORK_CONTROL, free=unused)
        elif lossless.get(priority, name) != name:
            said = {"name": name, "dscp": stated.dscp, "priority": priority, "other": lossless[priority]}
            facts.report.on("CLASS-004", path, **said, free=free.dscp(facts, name))
        elif (taken := by_priority.setdefault(priority, name)) != name and priority not in lossless:
            said = {"name": name, "dscp": stated.dscp, "priority": priority, "other": taken}
            facts.report.on("CLASS-008", path, **said, free=free.dscp(facts, name))
        elif priority == 0 and stated.delivery is Delivery.LOSSLESS and name == "rdma":
            facts.report.on("CLASS-009", path, name=name, dscp=stated.dscp, free=free.dscp(facts, name))
    for name, stated in classes.items():
        if stated.delivery is Delivery.LOSSLESS and name != "rdma":
            facts.report.on("CLASS-003", ("traffic_classes", name, "delivery"), name=name)
        if fraction(stated.share) == 0.0:
            facts.report.on("CLASS-006", ("traffic_classes", name, "share"), name=name)
    # A class that was refused for its shape makes the sum meaningless.
    total = round(sum(fraction(stated.share) for stated in classes.values()) * 100, 6)
    whole = len(classes) == len(facts.stated("traffic_classes"))
    if total != 100 and whole and not any(facts.guessed(("traffic_classes", name, "share")) for name in classes):
        facts.report.on_key("CLASS-001", ("traffic_classes",), total=f"{total:g}")


def _lossless(facts: Facts) -> None:
    for name, stated in facts.site.traffic_classes.items():
        if stated.delivery is not Delivery.LOSSLESS:
            continue
        for switch in facts.site.switches:
            if not _can_be_lossless(facts, name, stated.dscp, switch):
                break


def _can_be_lossless(facts: Facts, name: str, dscp: int, switch: str) -> bool:
    """Whether *switch* can have the lossless class *name*, whose packets have *dscp*; tells why not."""
    stated, path, priority = facts.site.switches[switch], ("traffic_classes", name), dscp >> 3
    model, platform = facts.catalog.switches.get(stated.model), facts.catalog.platforms.get(stated.platform)
    if model is not None and not model.lossless:
        facts.report.on("CLASS-007", (*path, "delivery"), name=name, switch=switch, model=model.model)
        return False
    if platform is None or platform.qos is None or not 0 < priority < NETWORK_CONTROL >> 3:
        return True  # other rules tell of priorities that nobody may have
    can = platform.qos.lossless_priorities
    if priority not in can:
        which = f"{switch} ({platform.name})"
        blocks = " or ".join(f"{number * 8} to {number * 8 + 7}" for number in can)
        said = {"name": name, "dscp": dscp, "priority": priority, "switch": which, "blocks": blocks}
        facts.report.on("CLASS-010", (*path, "dscp"), **said, free=free.dscp(facts, name))
    return priority in can
