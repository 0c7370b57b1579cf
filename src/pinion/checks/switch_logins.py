"""Claims about who may open SSH to a switch's gateways: hosts that the plan's flows let in get its greeting, a Pi gets nothing. Pure.

A gateway is the one address of a switch that the hosts of the fabric reach. Whether a stranger is refused or never answered is the switch's
own manner, so the probe tells only whether SSH greets it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinion.checks.model import Check, HostProbe, Topic
from pinion.plan.addressing import host as without_mask
from pinion.plan.flows import SSH, within
from pinion.plan.model import DeviceKind, DevicePlan, HostPlan, Plan, SwitchPlan
from pinion.site.catalog import Evidence

GREETED, KEPT_OUT = "greeted", "kept out"
#: Seconds that a switch has to greet whoever may log in.
_PATIENCE = 3
_ASK = (
    "import socket, sys\n"
    "found = b''\n"
    "for _ in range(2):\n"
    "    try:\n"
    f"        with socket.create_connection((sys.argv[1], {SSH}), {_PATIENCE}) as link:\n"
    "            found = link.recv(4)\n"
    "    except OSError:\n"
    "        continue\n"
    "    break\n"
    f"print('{GREETED}' if found == b'SSH-' else '{KEPT_OUT}')\n"
)


def switch_login_checks(plan: Plan) -> tuple[Check, ...]:
    """For every gateway of a switch that holds anybody back: one host that may log in and does, and one Pi that may not."""
    devices = {device.name: device for device in plan.devices}
    routed = {vlan.name for vlan in plan.vlans if vlan.fabric and any(prefix.gateway for prefix in vlan.prefixes)}
    asking = [(host, spoken) for host in plan.hosts if (spoken := _addresses(devices[host.name], routed))]
    found: dict[str, Check] = {}
    for switch in plan.switches:
        if not switch.ssh_sources:
            continue
        for svi in switch.svis:
            address = without_mask(svi.address)
            family = [
                (host, own)
                for host, all_ in asking
                if (own := [one for one in all_ if (":" in one) == (":" in address)])
            ]
            for check in _asked(plan, switch, address, family):
                found.setdefault(check.id, check)
    return tuple(found.values())


def _addresses(device: DevicePlan, routed: set[str]) -> list[str]:
    """The addresses that *device* may speak to a gateway from."""
    return [without_mask(text) for leg in device.interfaces if leg.untagged_vlan in routed for text in leg.addresses]


def _asked(plan: Plan, switch: SwitchPlan, address: str, asking: list[tuple[HostPlan, list[str]]]) -> Iterator[Check]:
    may = next((host for host, own in asking if all(within(switch.ssh_sources, one) for one in own)), None)
    pis = ((host, own) for host, own in asking if host.kind is DeviceKind.PI)
    may_not = next((host for host, own in pis if not any(within(switch.ssh_sources, one) for one in own)), None)
    if may is not None:
        yield _check(plan, switch, may, address, GREETED)
    if may_not is not None:
        yield _check(plan, switch, may_not, address, KEPT_OUT)


def _check(plan: Plan, switch: SwitchPlan, source: HostPlan, address: str, expected: str) -> Check:
    return Check(
        id=f"switch-ssh.{source.name}.{address}",
        topic=Topic.REACHABILITY,
        subject=switch.name,
        claim=f"by SSH of the gateway {address}, {source.name} is",
        expected=expected,
        probe=HostProbe(host=source.name, command=f'python3 -c "{_ASK}" {address}'),
        remedy=f"compare `show ip access-lists` on {switch.name} with `pinion plan {plan.site} --json` under switches, ssh_sources; "
        f"`pinion up {plan.site}` puts it back",
        origin="concerns.firewall",
        best=min(switch.evidence, source.evidence, key=list(Evidence).index),
        silent=expected == KEPT_OUT,
    )
