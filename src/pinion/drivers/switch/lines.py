"""The configuration lines that differ between two states of a switch, for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.drivers.switch.state import DEFAULT_MTU, DEFAULT_VLAN, PortState, SviState, SwitchState, port_order
from pinion.render.switch import SSH_LIST, access_word, permit, vid_ranges


def config_lines(state: SwitchState, target: SwitchState) -> Iterator[str]:
    """The lines that differ, each under the unchanged header of its block: ``interface Ethernet3``, ``-   switchport access vlan 102``."""
    has, needs = _text_blocks(state), _text_blocks(target)
    for header in sorted({*has, *needs}, key=_block_order):
        old, new = has.get(header), needs.get(header)
        if old == new:
            continue
        if old is None or new is None:
            sign, lines = ("+", new) if old is None else ("-", old)
            yield f"{sign}{header}"
            yield from (f"{sign}   {line}" for line in lines or ())
            continue
        yield f" {header}"
        yield from (f"-   {line}" for line in old if line not in new)
        yield from (f"+   {line}" for line in new if line not in old)


def _block_order(header: str) -> tuple[int, tuple[int, ...]]:
    """The order of ``show running-config``: VLANs, ports, gateways, the rest."""
    kinds = ("vlan ", "interface Ethernet", "interface Vlan", "")
    return next(place for place, kind in enumerate(kinds) if header.startswith(kind)), port_order(header)


def _text_blocks(state: SwitchState) -> dict[str, list[str]]:
    blocks = {f"vlan {vlan.vid}": [*([f"name {vlan.name}"] if vlan.name else []), *vlan.other] for vlan in state.vlans}
    blocks |= {f"interface {port.name}": list(_port_lines(port)) for port in state.ports}
    blocks |= {f"interface Vlan{svi.vid}": list(_svi_lines(svi)) for svi in state.svis}
    if state.virtual_router_mac:
        blocks[f"ip virtual-router mac-address {state.virtual_router_mac}"] = []
    if state.ip_routing:
        blocks["ip routing"] = []
    if state.ipv6_routing:
        blocks["ipv6 unicast-routing"] = []
    for word, guard in ((access_word(False), state.ssh_ipv4), (access_word(True), state.ssh_ipv6)):
        if guard.allowed is not None:
            blocks[f"{word} access-list standard {SSH_LIST}"] = [*map(permit, guard.allowed), *guard.other, "deny any"]
        if guard.asked is not None:
            blocks.setdefault("management ssh", []).append(f"{word} access-group {guard.asked} in")
    return blocks


def _port_lines(port: PortState) -> Iterator[str]:
    if port.description:
        yield f"description {port.description}"
    if not port.enabled:
        yield "shutdown"
    if port.mtu is not None:
        yield f"l2 mtu {port.mtu}"
    if port.mode == "routed":
        yield "no switchport"
    if port.access_vlan != DEFAULT_VLAN:
        yield f"switchport access vlan {port.access_vlan}"
    if port.native_vlan != DEFAULT_VLAN:
        yield f"switchport trunk native vlan {port.native_vlan}"
    if port.trunk_vlans is not None:
        yield f"switchport trunk allowed vlan {vid_ranges(port.trunk_vlans)}"
    if port.mode == "trunk":
        yield "switchport mode trunk"
    yield from port.other


def _svi_lines(svi: SviState) -> Iterator[str]:
    if svi.description:
        yield f"description {svi.description}"
    if not svi.enabled:
        yield "shutdown"
    if svi.mtu != DEFAULT_MTU:
        yield f"mtu {svi.mtu}"
    for infix, addresses in (("", svi.addresses), ("virtual ", svi.virtual_addresses)):
        for index, address in enumerate(addresses):
            ipv6 = ":" in address
            yield f"{'ipv6' if ipv6 else 'ip'} address {infix}{address}" + (" secondary" if index and not ipv6 else "")
    yield from svi.other
