"""The commands of interfaces: front ports, routed VLAN interfaces, the management interface."""

from __future__ import annotations

from dataclasses import replace

from .config import (
    DEFAULT_MTU,
    DEFAULT_VLAN,
    Address,
    Config,
    Ethernet,
    Management,
    VlanInterface,
)
from .editor import ETHERNET, MANAGEMENT, SVI, Editor, svi_vids
from .grammar import CliError

# --- what every interface has -----------------------------------------------------------------------------------------


def _each(editor: Editor) -> list[Ethernet | VlanInterface | Management]:
    """The interfaces that the editor stands in."""
    config = editor.config
    if editor.mode is ETHERNET:
        return [config.ethernets[name] for name in editor.targets]
    if editor.mode is MANAGEMENT:
        return [config.managements[name] for name in editor.targets]
    return [config.svis[vid] for vid in svi_vids(editor.targets)]


def _describe(editor: Editor, text: str = "") -> None:
    for interface in _each(editor):
        editor.config = editor.config.with_interface(replace(interface, description=text))


def _undescribe(editor: Editor, _: str = "") -> None:
    _describe(editor)


def _shut(editor: Editor) -> None:
    for interface in _each(editor):
        editor.config = editor.config.with_interface(replace(interface, shutdown=True))


def _unshut(editor: Editor) -> None:
    for interface in _each(editor):
        editor.config = editor.config.with_interface(replace(interface, shutdown=False))


for _mode in (ETHERNET, SVI, MANAGEMENT):
    _mode.add("description <text>", _describe, "Describe the interface")
    for _pattern in ("no description", "default description", "no description <text>"):
        _mode.add(_pattern, _undescribe)
    _mode.add("shutdown", _shut, "Disable the interface")
    for _pattern in ("no shutdown", "default shutdown"):
        _mode.add(_pattern, _unshut)


# --- front ports ------------------------------------------------------------------------------------------------------


def _ports(editor: Editor) -> list[Ethernet]:
    return [editor.config.ethernets[name] for name in editor.targets]


def _set_port(editor: Editor, **fields: object) -> None:
    for port in _ports(editor):
        editor.config = editor.config.with_interface(replace(port, **fields))  # type: ignore[arg-type]


@ETHERNET.command("switchport", about="Bridge this port (always)")
def _switchport(editor: Editor) -> None:
    del editor  # a front port of this switch always bridges


@ETHERNET.command("no switchport", about="Route on this port")
def _no_switchport(editor: Editor) -> None:
    del editor
    raise CliError("% Unavailable command (not supported on this hardware platform)")


@ETHERNET.command("switchport mode access", "no switchport mode", "default switchport mode", about="One VLAN, untagged")
def _access(editor: Editor) -> None:
    _set_port(editor, trunk=False)


@ETHERNET.command("switchport mode trunk", about="Several VLANs, tagged")
def _trunk(editor: Editor) -> None:
    _set_port(editor, trunk=True)


@ETHERNET.command("switchport access vlan <vid>", about="VLAN of an access port")
def _access_vlan(editor: Editor, vid: int) -> None:
    _set_port(editor, access_vlan=vid)


@ETHERNET.command("no switchport access vlan", "default switchport access vlan", "no switchport access vlan <vid>")
def _no_access_vlan(editor: Editor, _: int = DEFAULT_VLAN) -> None:
    _set_port(editor, access_vlan=DEFAULT_VLAN)


@ETHERNET.command("switchport trunk native vlan <vid>", about="VLAN of untagged frames on a trunk")
def _native_vlan(editor: Editor, vid: int) -> None:
    _set_port(editor, native_vlan=vid)


@ETHERNET.command("no switchport trunk native vlan", "default switchport trunk native vlan")
def _no_native_vlan(editor: Editor) -> None:
    _set_port(editor, native_vlan=DEFAULT_VLAN)


@ETHERNET.command("switchport trunk allowed vlan <vids>", about="VLANs that a trunk carries")
def _allowed(editor: Editor, vids: frozenset[int]) -> None:
    _set_port(editor, allowed=vids if len(vids) < 4094 else None)


@ETHERNET.command("switchport trunk allowed vlan none")
def _allowed_none(editor: Editor) -> None:
    _set_port(editor, allowed=frozenset())


@ETHERNET.command(
    "switchport trunk allowed vlan all", "no switchport trunk allowed vlan", "default switchport trunk allowed vlan"
)
def _allowed_all(editor: Editor) -> None:
    _set_port(editor, allowed=None)


@ETHERNET.command("switchport trunk allowed vlan add <vids>")
def _allowed_add(editor: Editor, vids: frozenset[int]) -> None:
    for port in _ports(editor):
        if port.allowed is not None:
            editor.config = editor.config.with_interface(replace(port, allowed=port.allowed | vids))


@ETHERNET.command("switchport trunk allowed vlan remove <vids>")
def _allowed_remove(editor: Editor, vids: frozenset[int]) -> None:
    for port in _ports(editor):
        before = port.allowed if port.allowed is not None else frozenset(range(1, 4095))
        editor.config = editor.config.with_interface(replace(port, allowed=before - vids))


@ETHERNET.command("l2 mtu <mtu>", about="Largest frame payload, octets")
def _l2_mtu(editor: Editor, mtu: int) -> None:
    _set_port(editor, l2_mtu=mtu)


@ETHERNET.command("no l2 mtu", "default l2 mtu", "no l2 mtu <mtu>")
def _no_l2_mtu(editor: Editor, _: int = 0) -> None:
    _set_port(editor, l2_mtu=None)


# --- addresses --------------------------------------------------------------------------------------------------------


@SVI.command("mtu <mtu>", about="Largest packet, octets")
def _mtu(editor: Editor, mtu: int) -> None:
    for vid in svi_vids(editor.targets):
        editor.config = editor.config.with_interface(replace(editor.config.svis[vid], mtu=mtu))


@SVI.command("no mtu", "default mtu", "no mtu <mtu>")
def _no_mtu(editor: Editor, _: int = 0) -> None:
    _mtu(editor, DEFAULT_MTU)


def _one(editor: Editor) -> VlanInterface | Management:
    """The one interface that gets an address."""
    if len(editor.targets) > 1:
        raise CliError("% Error: an address belongs to one interface")
    interface = _each(editor)[0]
    if isinstance(interface, Ethernet):
        raise CliError("% Unavailable command (not supported on this hardware platform)")
    return interface


def _add_address(editor: Editor, address: Address) -> None:
    interface = _one(editor)
    holder = next((name for name, held in _holders(editor.config, address.text) if name != interface.name), None)
    if holder is not None:
        raise CliError(f"% Error: address {address.text} is already assigned to interface {holder}")
    primary = not address.ipv6 and not address.secondary
    kept = [
        known
        for known in interface.addresses
        if known.text != address.text and not (primary and not known.ipv6 and not known.secondary)
    ]
    ordered = sorted([*kept, address], key=lambda known: (known.ipv6, known.secondary))
    editor.config = editor.config.with_interface(replace(interface, addresses=tuple(ordered)))


def _holders(config: Config, text: str) -> list[tuple[str, Address]]:
    interfaces: tuple[VlanInterface | Management, ...] = (*config.svis.values(), *config.managements.values())
    return [(held.name, address) for held in interfaces for address in held.addresses if address.text == text]


def _remove_addresses(editor: Editor, *, ipv6: bool, text: str | None = None) -> None:
    interface = _one(editor)
    kept = tuple(known for known in interface.addresses if known.ipv6 != ipv6 or text not in {None, known.text})
    editor.config = editor.config.with_interface(replace(interface, addresses=kept))


def _own(editor: Editor, text: str) -> None:
    _add_address(editor, Address(text))


def _secondary(editor: Editor, text: str) -> None:
    _add_address(editor, Address(text, secondary=True))


def _virtual(editor: Editor, text: str) -> None:
    _add_address(editor, Address(text, virtual=True))


def _virtual_secondary(editor: Editor, text: str) -> None:
    _add_address(editor, Address(text, virtual=True, secondary=True))


for _mode in (SVI, MANAGEMENT):
    _mode.add("ip address <prefix4>", _own, "IPv4 address with prefix length")
    _mode.add("ipv6 address <prefix6>", _own, "IPv6 address with prefix length")
    _mode.add("ip address <prefix4> secondary", _secondary)
    _mode.add("no ip address", lambda editor: _remove_addresses(editor, ipv6=False))
    _mode.add("no ip address <prefix4>", lambda editor, text: _remove_addresses(editor, ipv6=False, text=text))
    _mode.add("no ipv6 address", lambda editor: _remove_addresses(editor, ipv6=True))
    _mode.add("no ipv6 address <prefix6>", lambda editor, text: _remove_addresses(editor, ipv6=True, text=text))
SVI.add("ip address virtual <prefix4>", _virtual, "IPv4 address shared by a pair of switches")
SVI.add("ip address virtual <prefix4> secondary", _virtual_secondary)
SVI.add("ipv6 address virtual <prefix6>", _virtual, "IPv6 address shared by a pair of switches")
SVI.add("no ip address virtual", lambda editor: _remove_addresses(editor, ipv6=False))
SVI.add("no ip address virtual <prefix4>", lambda editor, text: _remove_addresses(editor, ipv6=False, text=text))
