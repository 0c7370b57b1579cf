"""The configuration lines that differ between two states of a switch, for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.drivers.switch.state import DEFAULT_MTU, DEFAULT_VLAN, PortState, SviState, SwitchState, port_order
from pinion.plan.model import SwitchQos
from pinion.render.switch import SSH_LIST, access_word, permit, vid_ranges
from pinion.render.switch_qos import map_line, profile_header, profile_lines, queue_header, queue_lines, watchdog_lines

#: The lines that open a block: one, and of a block within another that one's before it.
_Headers = tuple[str, ...]


def config_lines(state: SwitchState, target: SwitchState) -> Iterator[str]:
    """The lines that differ, each under the unchanged header of its block: ``interface Ethernet3``, ``-   switchport access vlan 102``."""
    has, needs = _text_blocks(state), _text_blocks(target)
    for headers in sorted({*has, *needs}, key=_block_order):
        old, new = has.get(headers), needs.get(headers)
        if old == new:
            continue
        outer = "   " * (len(headers) - 1)
        yield from (f" {'   ' * depth}{header}" for depth, header in enumerate(headers[:-1]))
        if old is None or new is None:
            sign, lines = ("+", new) if old is None else ("-", old)
            yield f"{sign}{outer}{headers[-1]}"
            yield from (f"{sign}{outer}   {line}" for line in lines or ())
            continue
        yield f" {outer}{headers[-1]}"
        yield from (f"-{outer}   {line}" for line in old if line not in new)
        yield from (f"+{outer}   {line}" for line in new if line not in old)


def _block_order(headers: _Headers) -> tuple[int, str, tuple[int, ...], int]:
    """The order of ``show running-config``: QoS profiles, VLANs, ports, gateways, the rest."""
    kinds = ("qos profile ", "vlan ", "interface Ethernet", "interface Vlan", "")
    place = next(place for place, kind in enumerate(kinds) if headers[0].startswith(kind))
    return place, headers[0] if place == 0 else "", port_order(" ".join(headers)), len(headers)


def _text_blocks(state: SwitchState) -> dict[_Headers, list[str]]:
    blocks = {
        (f"vlan {vlan.vid}",): [*([f"name {vlan.name}"] if vlan.name else []), *vlan.other] for vlan in state.vlans
    }
    blocks |= {(f"interface {port.name}",): list(_port_lines(port)) for port in state.ports}
    blocks |= {(f"interface Vlan{svi.vid}",): list(_svi_lines(svi)) for svi in state.svis}
    if state.virtual_router_mac:
        blocks[f"ip virtual-router mac-address {state.virtual_router_mac}",] = []
    if state.ip_routing:
        blocks["ip routing",] = []
    if state.ipv6_routing:
        blocks["ipv6 unicast-routing",] = []
    for word, guard in ((access_word(False), state.ssh_ipv4), (access_word(True), state.ssh_ipv6)):
        if guard.allowed is not None:
            rules = [*map(permit, guard.allowed), *guard.other, "deny any"]
            blocks[f"{word} access-list standard {SSH_LIST}",] = rules
        if guard.asked is not None:
            blocks.setdefault(("management ssh",), []).append(f"{word} access-group {guard.asked} in")
    return blocks | _qos_blocks(state.qos)


def _qos_blocks(qos: SwitchQos) -> dict[_Headers, list[str]]:
    blocks: dict[_Headers, list[str]] = {}
    for profile in qos.profiles:
        header = profile_header(profile.name)
        blocks[header,] = list(profile_lines(profile))
        blocks |= {(header, queue_header(queue)): list(queue_lines(queue)) for queue in profile.queues}
    blocks |= {(map_line(entry),): [] for entry in qos.maps}
    if qos.watchdog is not None:
        blocks |= {(line,): [] for line in watchdog_lines(qos.watchdog)}
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
    if port.qos_profile is not None:
        yield f"service-profile {port.qos_profile}"
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
