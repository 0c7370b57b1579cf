"""The commands that make a configuration session hold a plan: our whole scope taken out and put in anew, foreign things untouched. Pure.

Inside a session this costs nothing: the switch applies only what differs at the end, so an unchanged port never flaps.
"""

from __future__ import annotations

from pinion.drivers.switch.diff import owned_vids
from pinion.drivers.switch.qos import expected_qos, map_defaults, profiles_to_remove
from pinion.drivers.switch.state import SwitchState, port_order
from pinion.plan.model import SwitchPlan
from pinion.render.switch import SSH_LIST, access_word, eos_config
from pinion.render.switch_qos import watchdog_removal


def eos_commands(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None = None) -> list[str]:
    """EOS configuration commands, in order, for a session on a switch that holds *state*. Each starts at any depth of the session."""
    ours = owned_vids(want, previous)
    planned = {port.name for port in want.ports}
    strangers = sorted({port.name for port in state.ports} - planned, key=port_order)
    return [
        *_without_ssh_lists(state, want),
        *(f"no interface Vlan{svi.vid}" for svi in state.svis if svi.vid in ours),
        *(f"no vlan {vlan.vid}" for vlan in state.vlans if vlan.vid in ours),
        *(f"default interface {name}" for name in (*sorted(planned, key=port_order), *strangers)),
        *profiles_to_remove(state.qos),  # after the ports that take them
        *map_defaults(state.qos, want, previous),
        *_without_watchdog(state, want, previous),
        *(line.strip() for line in eos_config(want).splitlines() if line.strip() not in {"", "!"}),
        *(line for name in strangers for line in (f"interface {name}", "shutdown")),
    ]


def _without_watchdog(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None) -> list[str]:
    """What the switch holds of the watchdog's timers away, where they are ours: the plan's are put in anew."""
    if state.qos.watchdog is None or expected_qos(state.qos, want, previous).watchdog == state.qos.watchdog:
        return []
    return list(watchdog_removal(state.qos.watchdog))


def _without_ssh_lists(state: SwitchState, want: SwitchPlan) -> list[str]:
    """Our access lists away; where the plan has none, SSH asks them no longer either. Somebody else's list stays asked."""
    guards = ((access_word(ipv6), state.ssh_ipv6 if ipv6 else state.ssh_ipv4) for ipv6 in (False, True))
    lines = []
    for word, guard in guards:
        if guard.ours and not want.ssh_sources:
            lines += ["management ssh", f"no {word} access-group {SSH_LIST} in", "exit"]
        if guard.allowed is not None:
            lines.append(f"no {word} access-list standard {SSH_LIST}")
    return lines
