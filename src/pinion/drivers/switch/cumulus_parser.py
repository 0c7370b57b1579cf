"""NVUE configuration of Cumulus Linux to `SwitchState`: a parser of its own, which shares nothing with the template that renders such text.

Nothing is dropped silently: a statement inside our scope that has no typed field ends up in `other`, so it shows as a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_interface, ip_network

from pinion.drivers.switch.cumulus_qos_parser import DEFAULTS, port_profile, read_qos
from pinion.drivers.switch.nvue_tree import Node, read_tree
from pinion.plan.model import (
    DEFAULT_VLAN,
    SSH_LIST,
    Mode,
    PortState,
    SshGuard,
    SviState,
    SwitchState,
    VlanState,
    ordered_addresses,
    port_order,
)

__all__ = ["DEFAULTS", "parse"]

_PORT = re.compile(r"swp\d+(?:s\d+)?")
_SVI = re.compile(r"vlan(\d+)")
_BRIDGE = ("bridge", "domain", "br_default")
#: MTU of an interface that states none (Cumulus Linux user guide, "Interface Configuration and Management").
_MTU = 9216
#: Our lists: NVUE has one family a list.
_LISTS = {"ipv4": SSH_LIST, "ipv6": f"{SSH_LIST}-ipv6"}
_SSH_RULE = {("match", "ip", "protocol"): "tcp", ("match", "ip", "tcp", "dest-port", "22"): None}


def parse(text: str) -> SwitchState:
    """The declared scope of the configuration *text*. Statements outside it are passed over. Raises `NotNvueError`, a `ValueError`."""
    root = read_tree(text).root
    qos = read_qos(root)
    svis = tuple(
        _svi(int(match[1]), node)
        for name, node in root.below("interface").items()
        if (match := _SVI.fullmatch(name)) is not None
    )
    shown = [address for svi in svis for address in (*svi.addresses, *svi.virtual_addresses)]
    mac = root.text("system", "global", "fabric-mac")
    return SwitchState(
        vlans=tuple(
            VlanState(vid=int(vid), other=_rest(node, ()))
            for vid, node in sorted(root.below(*_BRIDGE, "vlan").items(), key=lambda item: port_order(item[0]))
            if vid.isdecimal() and int(vid) != DEFAULT_VLAN
        ),
        ports=tuple(
            _port(name, node, root)
            for name, node in sorted(root.below("interface").items(), key=lambda item: port_order(item[0]))
            if _PORT.fullmatch(name) is not None
        ),
        svis=tuple(sorted(svis, key=lambda svi: svi.vid)),
        # Cumulus routes between its addresses unless told otherwise
        ip_routing=any(":" not in address for address in shown),
        ipv6_routing=any(":" in address for address in shown),
        virtual_router_mac=mac.lower() if mac is not None else None,
        ssh_ipv4=_guard(root, "ipv4"),
        ssh_ipv6=_guard(root, "ipv6"),
        qos=qos,
    )


def _rest(node: Node, known: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The statements below *node* that are none of *known* and stand below none of them, in words."""
    beginnings = tuple(known)
    return tuple(
        " ".join((*path, leaf.value or "")).strip()
        for path, leaf in node.leaves()
        if not any(path[: len(beginning)] == beginning for beginning in beginnings)
    )


def _port(name: str, node: Node, root: Node) -> PortState:
    bridge = node.at(*_BRIDGE)
    profile, other = port_profile(root, node)
    access = bridge.text("access") if bridge is not None else None
    vids = bridge.at("vlan") if bridge is not None else None
    mode: Mode = "trunk" if bridge is not None and access is None else "access"
    if access == str(DEFAULT_VLAN):  # it stands in the bridge, where a port that Pinion leaves out does not
        other = (*other, f"bridge domain br_default access {access}")
    known = [
        (*_BRIDGE, "access"), (*_BRIDGE, "untagged"), (*_BRIDGE, "vlan"),
        ("description",), ("link", "mtu"), ("link", "state"), ("type",), ("qos",),
    ]  # fmt: skip
    if bridge is not None and not bridge.children:
        known.append(_BRIDGE)
    return PortState(
        name=name,
        description=node.text("description") or "",
        enabled=node.at("link", "state", "down") is None,
        mode=mode,
        access_vlan=_number(access) or DEFAULT_VLAN,
        native_vlan=_number(bridge.text("untagged") if bridge is not None else None) or DEFAULT_VLAN,
        trunk_vlans=tuple(sorted(int(vid) for vid in vids.children if vid.isdecimal()))
        if mode == "trunk" and vids is not None
        else None,
        mtu=_number(node.text("link", "mtu")),
        qos_profile=profile,
        other=(*_rest(node, known), *other),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _svi(vid: int, node: Node) -> SviState:
    own = [key for key in node.below("ip", "address") if _is_address(key)]
    virtual = [key for key in node.below("ip", "vrr", "address") if _is_address(key)]
    known = [("description",), ("link", "mtu"), ("link", "state"), ("type",), ("ip", "vrr", "state", "up")]
    known += [("ip", "address", key) for key in own] + [("ip", "vrr", "address", key) for key in virtual]
    if node.text("vlan") == str(vid):
        known.append(("vlan",))
    return SviState(
        vid=vid,
        description=node.text("description") or "",
        enabled=node.at("link", "state", "down") is None,
        mtu=_number(node.text("link", "mtu")) or _MTU,
        addresses=ordered_addresses(own),
        virtual_addresses=ordered_addresses(virtual),
        other=_rest(node, known),
    )


def _is_address(text: str) -> bool:
    try:
        ip_interface(text)
    except ValueError:
        return False
    return True


def _guard(root: Node, family: str) -> SshGuard:
    """Who may open SSH over *family*: our list, and whether the control plane asks it. Somebody's lists beside it are passed over."""
    name = _LISTS[family]
    asked = SSH_LIST if root.at("system", "control-plane", "acl", name, "inbound") is not None else None
    held = root.at("acl", name)
    if held is None:
        return SshGuard(asked=asked)
    allowed: list[str] = []
    other: list[str] = []
    if held.text("type") != family:
        other.append(f"type {held.text('type')}")
    rules = sorted(held.below("rule").items(), key=lambda item: port_order(item[0]))
    for place, (number, rule) in enumerate(rules, start=1):
        source, action = _ssh_rule(rule)
        if action == "permit" and source is not None:
            allowed.append(source)
        elif action != "deny" or source is not None or place != len(rules):
            other += [f"rule {number} {said}" for said in _rest(rule, ())]
    if not rules or _ssh_rule(rules[-1][1]) != (None, "deny"):
        other.append("all others are let in")
    return SshGuard(asked=asked, allowed=tuple(allowed), other=tuple(other))


def _ssh_rule(rule: Node) -> tuple[str | None, str]:
    """The source (None: anybody) and the action of *rule*, when it is about SSH and nothing else; an empty action when it is not."""
    said = {path: leaf.value for path, leaf in rule.leaves()}
    source = said.pop(("match", "ip", "source-ip"), None)
    action = next((word for word in ("permit", "deny") if ("action", word) in said), "")
    said.pop(("action", action), None)
    try:
        known = None if source is None else str(ip_network(source))
    except ValueError:
        return None, ""
    return known, action if said == _SSH_RULE else ""
