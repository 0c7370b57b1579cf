"""The commands that make a configuration session hold a plan: our whole scope taken out and put in anew, foreign things untouched. Pure.

Inside a session this costs nothing: the switch applies only what differs at the end, so an unchanged port never flaps.
"""

from __future__ import annotations

from collections.abc import Iterator

from pinion.drivers.switch.diff import owned_vids
from pinion.drivers.switch.eos_qos_parser import DEFAULTS
from pinion.drivers.switch.qos import OURS, default_entry, expected_qos, owned_maps
from pinion.plan.model import SSH_LIST, PauseWatchdog, SwitchPlan, SwitchQos, SwitchState, port_order
from pinion.plan.switch_state import switch_state
from pinion.render.eos import eos_config


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
        # after the ports that take them
        *(f"no qos profile {profile.name}" for profile in state.qos.profiles if profile.name.startswith(OURS)),
        *_map_defaults(state, want, previous),
        *_without_watchdog(state, want, previous),
        *_lines(switch_state(want)),
        *(line for name in strangers for line in (f"interface {name}", "shutdown")),
    ]


def _lines(state: SwitchState) -> Iterator[str]:
    yield from (line.strip() for line in eos_config(state).splitlines() if line.strip() not in {"", "!"})


def _map_defaults(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None) -> Iterator[str]:
    """Entries of ours which the plan no longer has back to the switch's own."""
    planned = {entry.key for entry in want.qos.maps} if want.qos is not None else set()
    ours = owned_maps(want, previous)
    gone = (entry for entry in state.qos.maps if entry.key in ours and entry.key not in planned)
    yield from _lines(SwitchState(qos=SwitchQos(maps=tuple(default_entry(entry, DEFAULTS) for entry in gone))))


def _without_watchdog(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None) -> Iterator[str]:
    """What the switch holds of the watchdog's timers away, where they are ours: the plan's are put in anew."""
    held: PauseWatchdog | None = state.qos.watchdog
    if held is None or expected_qos(state.qos, want, previous, DEFAULTS).watchdog == held:
        return
    for line in _lines(SwitchState(qos=SwitchQos(watchdog=held))):
        # a timer goes by its name, whatever its value
        yield f"no {line if line in held.other else line.rpartition(' ')[0]}"


def _without_ssh_lists(state: SwitchState, want: SwitchPlan) -> Iterator[str]:
    """Our access lists away; where the plan has none, SSH asks them no longer either. Somebody else's list stays asked."""
    for word, guard in (("ip", state.ssh_ipv4), ("ipv6", state.ssh_ipv6)):
        if guard.ours and not want.ssh_sources:
            yield from ("management ssh", f"no {word} access-group {SSH_LIST} in", "exit")
        if guard.allowed is not None:
            yield f"no {word} access-list standard {SSH_LIST}"
