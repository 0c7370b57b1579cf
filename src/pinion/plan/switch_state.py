"""What a switch must hold, as its state: the last place where anything is decided of a switch. A writer says it in its system's words."""

from __future__ import annotations

from itertools import groupby

from pinion.plan.model import (
    DEFAULT_VLAN,
    SSH_LIST,
    PortMode,
    PortState,
    SshGuard,
    SviState,
    SwitchPlan,
    SwitchPort,
    SwitchQos,
    SwitchState,
    VlanState,
    ordered_addresses,
    port_order,
)


def switch_state(plan: SwitchPlan) -> SwitchState:
    """The state of a switch that holds *plan* and nothing else, with each statement of it, also where it is the switch's default.

    A switch routes the families that it has gateways of. Where anybody is named who may open SSH, what one family lets nobody do,
    nobody does over the other.
    """
    svis = sorted(plan.svis, key=lambda svi: svi.vid)
    families = {":" in svi.address for svi in svis}
    return SwitchState(
        vlans=tuple(
            VlanState(vid=vlan.vid, name=vlan.name if plan.vlan_names else None)
            for vlan in sorted(plan.vlans, key=lambda vlan: vlan.vid)
        ),
        ports=tuple(sorted(map(_port, plan.ports), key=lambda port: port_order(port.name))),
        svis=tuple(
            SviState(
                vid=vid,
                mtu=members[0].mtu,
                addresses=ordered_addresses(svi.address for svi in members if not svi.virtual),
                virtual_addresses=ordered_addresses(svi.address for svi in members if svi.virtual),
            )
            for vid, members in ((vid, list(group)) for vid, group in groupby(svis, key=lambda svi: svi.vid))
        ),
        ip_routing=False in families,
        ipv6_routing=True in families,
        virtual_router_mac=plan.virtual_router_mac,
        ssh_ipv4=_guard(plan, ipv6=False),
        ssh_ipv6=_guard(plan, ipv6=True),
        qos=plan.qos if plan.qos is not None else SwitchQos(),
    )


def _guard(plan: SwitchPlan, *, ipv6: bool) -> SshGuard:
    if not plan.ssh_sources:
        return SshGuard()
    return SshGuard(asked=SSH_LIST, allowed=tuple(source for source in plan.ssh_sources if (":" in source) == ipv6))


def _port(port: SwitchPort) -> PortState:
    trunk = port.mode is PortMode.TRUNK
    access = port.mode is PortMode.ACCESS and port.access_vlan is not None
    return PortState(
        name=port.name,
        description=port.description,
        enabled=port.enabled,
        mode="trunk" if trunk else "access",
        access_vlan=port.access_vlan if access and port.access_vlan is not None else DEFAULT_VLAN,
        trunk_vlans=tuple(sorted(set(port.trunk_vlans))) if trunk else None,
        mtu=port.mtu,
        qos_profile=port.qos_profile,
    )
