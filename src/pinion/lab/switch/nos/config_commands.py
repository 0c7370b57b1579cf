"""The commands of global configuration and of VLANs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .config import (
    DEFAULT_VLAN,
    Ethernet,
    Management,
    Vlan,
    VlanInterface,
)
from .editor import ETHERNET, GLOBAL, MANAGEMENT, SVI, VLAN, Editor, svi_vids
from .grammar import CliError, Grammar

# --- global configuration ---------------------------------------------------------------------------------------------


@GLOBAL.command("hostname <host>", about="Set the name of the switch")
def _hostname(editor: Editor, name: str) -> None:
    editor.config = replace(editor.config, hostname=name)


@GLOBAL.command("no hostname", "default hostname")
def _no_hostname(editor: Editor) -> None:
    editor.config = replace(editor.config, hostname="localhost")


@GLOBAL.command("vlan <vids>", about="Create VLANs and configure them")
def _vlan(editor: Editor, vids: frozenset[int]) -> None:
    for vid in sorted(vids):
        if vid not in editor.config.vlans and vid != DEFAULT_VLAN:
            editor.config = editor.config.with_vlan(Vlan(vid))
    editor.mode, editor.targets, editor.vids = VLAN, (), tuple(sorted(vids))


@GLOBAL.command("no vlan <vids>", "default vlan <vids>")
def _no_vlan(editor: Editor, vids: frozenset[int]) -> None:
    if DEFAULT_VLAN in vids:
        raise CliError("% Error: VLAN 1 can not be removed")
    editor.config = editor.config.without_vlans(vids)
    if set(editor.vids) & vids:
        editor.leave()


@GLOBAL.command("interface <interfaces>", about="Configure interfaces")
def _interface(editor: Editor, names: tuple[str, ...]) -> None:
    kind = _kind(editor, names)
    if kind is SVI:
        for vid in svi_vids(names):
            if vid not in editor.config.svis:
                editor.config = editor.config.with_interface(VlanInterface(vid))
    editor.mode, editor.targets, editor.vids = kind, names, ()


@GLOBAL.command("no interface <interfaces>", about="Remove VLAN interfaces")
def _no_interface(editor: Editor, names: tuple[str, ...]) -> None:
    if _kind(editor, names) is not SVI:
        raise CliError("% Error: a physical interface can not be removed")
    editor.config = editor.config.without_svis(svi_vids(names))
    if set(editor.targets) & set(names):
        editor.leave()


@GLOBAL.command("default interface <interfaces>", about="Set interfaces to their defaults")
def _default_interface(editor: Editor, names: tuple[str, ...]) -> None:
    kind = _kind(editor, names)
    for name in names:
        if kind is ETHERNET:
            editor.config = editor.config.with_interface(Ethernet(name))
        elif kind is MANAGEMENT:
            editor.config = editor.config.with_interface(Management(name))
        elif int(name.removeprefix("Vlan")) in editor.config.svis:
            editor.config = editor.config.with_interface(VlanInterface(int(name.removeprefix("Vlan"))))


@GLOBAL.command("ip routing", about="Route IPv4 between interfaces")
def _ip_routing(editor: Editor) -> None:
    editor.config = replace(editor.config, ip_routing=True)


@GLOBAL.command("no ip routing", "default ip routing")
def _no_ip_routing(editor: Editor) -> None:
    editor.config = replace(editor.config, ip_routing=False)


@GLOBAL.command("ipv6 unicast-routing", about="Route IPv6 between interfaces")
def _ipv6_routing(editor: Editor) -> None:
    editor.config = replace(editor.config, ipv6_routing=True)


@GLOBAL.command("no ipv6 unicast-routing", "default ipv6 unicast-routing")
def _no_ipv6_routing(editor: Editor) -> None:
    editor.config = replace(editor.config, ipv6_routing=False)


@GLOBAL.command("ip virtual-router mac-address <mac>", about="MAC address of shared gateways")
def _virtual_mac(editor: Editor, mac: str) -> None:
    editor.config = replace(editor.config, virtual_router_mac=mac)


@GLOBAL.command("no ip virtual-router mac-address", "no ip virtual-router mac-address <mac>")
def _no_virtual_mac(editor: Editor, _: str = "") -> None:
    editor.config = replace(editor.config, virtual_router_mac=None)


def _kind(editor: Editor, names: Sequence[str]) -> Grammar:
    """The mode for interfaces *names*, which are of one kind. `CliError` when one does not exist."""
    for name in names:
        if name.startswith("Ethernet") and name not in editor.config.ethernets:
            raise CliError(f"% Invalid input: interface {name} does not exist")
        if name.startswith("Management") and name not in editor.config.managements:
            raise CliError(f"% Invalid input: interface {name} does not exist")
        if name.startswith("Vlan") and not 1 <= int(name.removeprefix("Vlan")) <= 4094:
            raise CliError(f"% Invalid input: interface {name} does not exist")
    first = names[0]
    return ETHERNET if first.startswith("Ethernet") else MANAGEMENT if first.startswith("Management") else SVI


# --- VLANs ------------------------------------------------------------------------------------------------------------


@VLAN.command("name <vlan-name>", about="Name of the VLAN, at most 32 characters")
def _vlan_name(editor: Editor, name: str) -> None:
    for vid in editor.vids:
        editor.config = editor.config.with_vlan(Vlan(vid, name))


@VLAN.command("no name", "default name", "no name <vlan-name>")
def _no_vlan_name(editor: Editor, _: str = "") -> None:
    for vid in editor.vids:
        editor.config = editor.config.with_vlan(Vlan(vid))
