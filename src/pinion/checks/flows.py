"""Claims about flows: on a host with a firewall what the plan's flows name is let in, and something else is not. Pure.

A probe opens a TCP connection from another host of the site. An answer, be it a refusal, shows that the packet came through; silence shows
that it was dropped. Whether something listens is no claim about the firewall.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinion.checks.model import Check, HostProbe, Topic
from pinion.plan import flows
from pinion.plan.addressing import host as without_mask
from pinion.plan.concerns.firewall import NAME as FIREWALL
from pinion.plan.model import DevicePlan, FlowPlan, HostPlan, Plan

LET_IN, DROPPED = "let in", "dropped"
#: Seconds that a packet inside one site has time to be answered.
PATIENCE = 2
#: Two tries: a first packet may be lost while a neighbour is being found.
_ASK = (
    "import socket, sys\n"
    "for _ in range(2):\n"
    "    try:\n"
    f"        socket.create_connection((sys.argv[1], int(sys.argv[2])), {PATIENCE})\n"
    "    except ConnectionRefusedError:\n"
    "        pass\n"
    "    except TimeoutError:\n"
    "        continue\n"
    f"    print('{LET_IN}')\n"
    "    break\n"
    "else:\n"
    f"    print('{DROPPED}')\n"
)


def flow_checks(plan: Plan) -> tuple[Check, ...]:
    """For every host with a firewall: one check a TCP flow that another host of the site may open, and one of a port that it may not."""
    guarded = [host for host in plan.hosts if FIREWALL in host.concerns]
    addresses = _addresses(plan)
    asking = [host for host in plan.hosts if addresses[host.name]]
    devices = {device.name: device for device in plan.devices}
    return tuple(
        _check(plan, source, host, _reached_at(plan, devices[host.name], host), port, expected, why)
        for host in guarded
        for source, port, expected, why in _asked(plan, devices[host.name], host, asking, addresses)
    )


def _addresses(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The addresses that each host may speak from: all but those of networks that nobody routes."""
    routed = {vlan.name for vlan in plan.vlans if not vlan.fabric or any(prefix.gateway for prefix in vlan.prefixes)}
    return {
        device.name: tuple(
            without_mask(text)
            for interface in device.interfaces
            if interface.untagged_vlan is None or interface.untagged_vlan in routed
            for text in interface.addresses
        )
        for device in plan.devices
    }


def _reached_at(plan: Plan, device: DevicePlan, host: HostPlan) -> str:
    """The address that the site's other hosts reach *host* at: on a routed network of the fabric, where its *device* has one."""
    routed = {vlan.name for vlan in plan.vlans if vlan.fabric and any(prefix.gateway for prefix in vlan.prefixes)}
    legs = (leg for leg in device.interfaces if leg.untagged_vlan in routed)
    return next((without_mask(text) for leg in legs for text in leg.addresses), host.address)


def _asked(
    plan: Plan, device: DevicePlan, host: HostPlan, asking: list[HostPlan], addresses: dict[str, tuple[str, ...]]
) -> Iterator[tuple[HostPlan, int, str, str]]:
    """Who asks *host* on which port, what must come of it, and the flow's name."""
    ending = [flow for flow in flows.ending_at(plan.flows, device) if flow.protocol == "tcp"]
    for flow in ending:
        source = next((other for other in asking if other is not host and _may(flow, addresses[other.name])), None)
        if source is not None:
            yield source, flow.ports[0], LET_IN, flow.name
    ports = sorted({port for flow in plan.flows if flow.protocol == "tcp" for port in flow.ports})
    for other in asking:
        closed = [port for port in ports if not any(_some(flow, port, addresses[other.name]) for flow in ending)]
        if other is not host and closed:
            yield other, closed[0], DROPPED, "none"
            return


def _may(flow: FlowPlan, addresses: tuple[str, ...]) -> bool:
    """Whether whoever has *addresses* may open *flow*, whichever of them it speaks from."""
    return all(flows.lets(flow, address) for address in addresses)


def _some(flow: FlowPlan, port: int, addresses: tuple[str, ...]) -> bool:
    """Whether *flow* lets one of *addresses* in on *port*."""
    return port in flow.ports and any(flows.lets(flow, address) for address in addresses)


def _check(plan: Plan, source: HostPlan, host: HostPlan, address: str, port: int, expected: str, flow: str) -> Check:
    told = f"by flow {flow}" if expected == LET_IN else "for no flow names it"
    return Check(
        id=f"flow.{host.name}.{source.name}.{port}",
        topic=Topic.REACHABILITY,
        subject=host.name,
        claim=f"a connection from {source.name} to port {port} of {host.name} ({told}) is",
        expected=expected,
        probe=HostProbe(host=source.name, command=f'python3 -c "{_ASK}" {address} {port}'),
        remedy=f"compare `pinion plan {plan.site} --json` under flows with `nft list table inet pinion` on {host.name}",
        origin="concerns.firewall",
        best=host.evidence,
        silent=expected == DROPPED,
    )
