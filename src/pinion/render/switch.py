"""A switch plan as the switch's own configuration text.

The text is the whole *declared scope* and nothing else: QoS maps and profiles, VLANs, ``interface EthernetN``, ``interface VlanN``, routing
between VLANs, and the access list that SSH asks. Management interface, host name, users and AAA are never in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from itertools import groupby
from operator import itemgetter

from pinion.plan.model import PortMode, Svi, SwitchPlan, SwitchPort, SwitchVlan
from pinion.render import templates
from pinion.render.switch_qos import global_lines, profile_text

#: Our access list of who may open SSH, one of this name a family.
SSH_LIST = "pinion-ssh"


def vid_ranges(vids: Iterable[int]) -> str:
    """VLAN identifiers as EOS writes a list of them: sorted, runs joined (``100-102,200``); ``none`` for no VLAN."""
    ordered = sorted(set(vids))
    runs = []
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        run = list(map(itemgetter(1), group))
        runs.append(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(runs) or "none"


@dataclass(frozen=True, slots=True)
class _Port:
    """One port for the template. What a port may lack is a sequence of none or one, so that the template only loops."""

    name: str
    descriptions: Sequence[str]
    shut: Sequence[None]
    mtus: Sequence[int]
    qos_profiles: Sequence[str]
    access_vlans: Sequence[int]
    trunks: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Gateway:
    """One SVI for the template; *address_lines* in EOS order: the primary IPv4 address, further ones, IPv6."""

    vid: int
    mtu: int
    address_lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class _AccessList:
    """One standard access list for the template; *rules* carry their numbers."""

    word: str
    name: str
    rules: Sequence[str]


def eos_config(switch: SwitchPlan) -> str:
    """The declared scope of *switch* as Arista EOS configuration, in the order and indentation of ``show running-config``."""
    return (
        templates()
        .get_template("switch/eos/config.j2")
        .render(
            qos_profile_lines=profile_text(switch.qos) if switch.qos is not None else [],
            vlans=sorted(switch.vlans, key=_by_vid),
            ports=[_port(port) for port in switch.ports],
            svis=_gateways(switch.svis),
            virtual_router_macs=[] if switch.virtual_router_mac is None else [switch.virtual_router_mac],
            routing_lines=routing_lines(switch.svis),
            access_lists=_access_lists(switch.ssh_sources),
            qos_lines=global_lines(switch.qos) if switch.qos is not None else [],
        )
    )


def access_word(ipv6: bool) -> str:
    """How EOS calls what is of one family: ``ip access-list``, ``ipv6 access-group``."""
    return "ipv6" if ipv6 else "ip"


def permit(prefix: str) -> str:
    """The rule of a standard access list that lets *prefix* in, as EOS shows it."""
    network = ip_network(prefix)
    return f"permit {f'host {network[0]}' if network.num_addresses == 1 else network}"


def _access_lists(sources: Sequence[str]) -> list[_AccessList]:
    """Both families', where anything is held back: what one family lets nobody do, nobody does over the other."""
    return [
        _AccessList(
            word=access_word(ipv6),
            name=SSH_LIST,
            rules=[
                f"{10 * number} {rule}"
                for number, rule in enumerate(
                    [*(permit(source) for source in sources if (":" in source) == ipv6), "deny any"], start=1
                )
            ],
        )
        for ipv6 in (False, True)
        if sources
    ]


def routing_lines(svis: Sequence[Svi]) -> list[str]:
    """The global lines that let a switch route between *svis*."""
    families = {":" in svi.address for svi in svis}
    return [line for ipv6, line in ((False, "ip routing"), (True, "ipv6 unicast-routing")) if ipv6 in families]


def _by_vid(vlan: SwitchVlan) -> int:
    return vlan.vid


def _port(port: SwitchPort) -> _Port:
    return _Port(
        name=port.name,
        descriptions=[port.description] if port.description else [],
        shut=[] if port.enabled else [None],
        mtus=[] if port.mtu is None else [port.mtu],
        qos_profiles=[] if port.qos_profile is None else [port.qos_profile],
        access_vlans=[port.access_vlan] if port.mode is PortMode.ACCESS and port.access_vlan is not None else [],
        trunks=[vid_ranges(port.trunk_vlans)] if port.mode is PortMode.TRUNK else [],
    )


def _gateways(svis: Sequence[Svi]) -> list[_Gateway]:
    found = []
    for vid, group in groupby(sorted(svis, key=lambda svi: (svi.vid, ":" in svi.address)), key=lambda svi: svi.vid):
        members = list(group)
        lines = []
        seen_ipv4 = False
        for svi in members:
            ipv6 = ":" in svi.address
            secondary = " secondary" if seen_ipv4 and not ipv6 else ""
            seen_ipv4 = seen_ipv4 or not ipv6
            lines.append(
                f"{'ipv6' if ipv6 else 'ip'} address {'virtual ' if svi.virtual else ''}{svi.address}{secondary}"
            )
        found.append(_Gateway(vid=vid, mtu=members[0].mtu, address_lines=lines))
    return found
