"""Probe ToR switches: read the running configuration once a switch and compare each element with the plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pinion.checks.model import Check, Finding, SwitchProbe, judge, not_run
from pinion.checks.probers import Prober
from pinion.drivers.switch import SwitchDriver, SwitchError, SwitchState
from pinion.plan.model import Plan, SwitchPlan


def switch_prober(driver_of: Callable[[SwitchPlan], SwitchDriver]) -> Prober:
    """A prober for SwitchProbe; *driver_of* opens the driver of one switch."""

    def one(switch: SwitchPlan, checks: Sequence[Check]) -> list[Finding]:
        started = time.monotonic()
        try:
            state = driver_of(switch).read()
        except SwitchError as error:
            return [not_run(check, str(error)) for check in checks]
        share = (time.monotonic() - started) / len(checks)
        return [
            judge(check, element(state, check.probe), share) for check in checks if isinstance(check.probe, SwitchProbe)
        ]

    def prober(plan: Plan, checks: Sequence[Check]) -> list[Finding]:
        mine: dict[str, list[Check]] = {}
        for check in checks:
            if isinstance(check.probe, SwitchProbe):
                mine.setdefault(check.probe.switch, []).append(check)
        switches = {switch.name: switch for switch in plan.switches}
        with ThreadPoolExecutor(max_workers=max(1, len(mine))) as pool:
            batches = pool.map(lambda item: one(switches[item[0]], item[1]), mine.items())
            return [finding for batch in batches for finding in batch]

    return prober


def element(state: SwitchState, probe: SwitchProbe) -> str:
    """One element of *state* in the phrase that the claim expects; ``absent`` when the switch does not hold it."""
    if probe.element == "vlan":
        return next((vlan.name or "unnamed" for vlan in state.vlans if str(vlan.vid) == probe.key), "absent")
    if probe.element == "svi":
        return next((svi.shown for svi in state.svis if str(svi.vid) == probe.key), "absent")
    port = next((port for port in state.ports if port.name == probe.key), None)
    if port is None:
        return "absent"
    if not port.enabled:
        return "shut"
    if port.mode == "trunk":
        return f"trunk {'all' if port.trunk_vlans is None else ','.join(map(str, port.trunk_vlans))}"
    return f"{port.mode} {port.access_vlan}"
