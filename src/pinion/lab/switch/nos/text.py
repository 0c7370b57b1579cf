"""A configuration as text, in the order and with the indentation of ``show running-config``. What is at its default is not shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from .config import (
    DEFAULT_MTU,
    DEFAULT_VLAN,
    Address,
    Config,
    Ethernet,
    Management,
    Rule,
    VlanInterface,
    interface_order,
    vid_list,
)
from .qos_text import global_blocks, profile_blocks


def render(config: Config) -> str:
    """The configuration, without a heading comment."""
    return "".join(f"{line}\n" for block in blocks(config) for line in (*block, "!")) + "end\n"


def blocks(config: Config) -> Iterator[list[str]]:
    """The top-level lines, each with the lines below it."""
    yield [f"hostname {config.hostname}"]
    yield from profile_blocks(config.qos)
    for vlan in config.vlans.values():
        yield [f"vlan {vlan.vid}", *([f"   name {vlan.name}"] if vlan.name is not None else [])]
    for name in sorted(config.ethernets, key=interface_order):
        yield [f"interface {name}", *_indented(_ethernet(config.ethernets[name]))]
    for management in config.managements.values():
        yield [f"interface {management.name}", *_indented(_management(management))]
    for svi in config.svis.values():
        yield [f"interface {svi.name}", *_indented(_svi(svi))]
    for known in config.access_lists.values():
        yield [f"{_family(known.ipv6)} access-list standard {known.name}", *_indented(map(rule_line, known.rules))]
    if config.virtual_router_mac is not None:
        yield [f"ip virtual-router mac-address {config.virtual_router_mac}"]
    yield ["ip routing" if config.ip_routing else "no ip routing"]
    if config.ipv6_routing:
        yield ["ipv6 unicast-routing"]
    yield from global_blocks(config.qos)
    if config.ssh_lists:
        asked = (f"{_family(ipv6)} access-group {name} in" for ipv6, name in sorted(config.ssh_lists.items()))
        yield ["management ssh", *_indented(asked)]


def rule_line(rule: Rule) -> str:
    """``10 permit host 10.0.0.1``."""
    source = "any"
    if rule.source is not None:
        address, _, length = rule.source.partition("/")
        source = f"host {address}" if length == ("128" if ":" in address else "32") else rule.source
    return f"{rule.number} {'permit' if rule.permit else 'deny'} {source}"


def _family(ipv6: bool) -> str:
    return "ipv6" if ipv6 else "ip"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"   {line}" for line in lines]


def _common(description: str, *, shutdown: bool) -> Iterator[str]:
    if description:
        yield f"description {description}"
    if shutdown:
        yield "shutdown"


def _ethernet(port: Ethernet) -> Iterator[str]:
    yield from _common(port.description, shutdown=port.shutdown)
    if port.l2_mtu is not None:
        yield f"l2 mtu {port.l2_mtu}"
    if port.access_vlan != DEFAULT_VLAN:
        yield f"switchport access vlan {port.access_vlan}"
    if port.native_vlan != DEFAULT_VLAN:
        yield f"switchport trunk native vlan {port.native_vlan}"
    if port.allowed is not None:
        yield f"switchport trunk allowed vlan {vid_list(port.allowed)}"
    if port.trunk:
        yield "switchport mode trunk"
    if port.service_profile is not None:
        yield f"service-profile {port.service_profile}"


def _management(management: Management) -> Iterator[str]:
    yield from _common(management.description, shutdown=management.shutdown)
    for address in management.addresses:
        yield address_line(address)


def _svi(svi: VlanInterface) -> Iterator[str]:
    yield from _common(svi.description, shutdown=svi.shutdown)
    if svi.mtu != DEFAULT_MTU:
        yield f"mtu {svi.mtu}"
    for address in svi.addresses:
        yield address_line(address)


def address_line(address: Address) -> str:
    """``ip address virtual 10.0.0.1/24``."""
    family = "ipv6" if address.ipv6 else "ip"
    virtual = "virtual " if address.virtual else ""
    return f"{family} address {virtual}{address.text}{' secondary' if address.secondary else ''}"


def diff(old: Config, new: Config, name: str) -> str:
    """How *new*, the configuration of session *name*, differs from *old*: a unified diff as ``show session-config diffs`` prints it."""
    lines = difflib.unified_diff(
        render(old).splitlines(),
        render(new).splitlines(),
        "system:/running-config",
        f"session:/{name}-session-config",
        lineterm="",
    )
    return "\n".join(lines)
