"""Probe ToR switches: each is read once and compared as a whole with its plan by the driver's own comparison, then told by element.

Every difference that the driver would mend shows: at the element of the plan that it is of, or under ``rest``. What is not ours is told
beside it and fails nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from pinion.checks.model import AS_PLANNED, Check, Finding, SwitchProbe, judge, not_run
from pinion.checks.probers import Prober
from pinion.drivers.switch import Change, SwitchDriver, SwitchError, SwitchState, compare
from pinion.plan.model import Plan, SwitchPlan

#: The part of a switch's state that an element of a probe is in.
_PARTS = {"vlan": "vlans", "port": "ports", "svi": "svis"}


def switch_prober(driver_of: Callable[[SwitchPlan], SwitchDriver]) -> Prober:
    """A prober for SwitchProbe; *driver_of* opens the driver of one switch."""

    def one(switch: SwitchPlan, checks: Sequence[Check]) -> list[Finding]:
        started = time.monotonic()
        try:
            state = driver_of(switch).read()
        except SwitchError as error:
            return [not_run(check, str(error)) for check in checks]
        return list(_findings(switch, state, checks, (time.monotonic() - started) / len(checks)))

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


def _findings(switch: SwitchPlan, state: SwitchState, checks: Sequence[Check], share: float) -> Iterator[Finding]:
    """What *state* comes to for each of *checks* of one *switch*; *share* is the seconds that each took."""
    difference = compare(state, switch)
    for check in checks:
        if not isinstance(check.probe, SwitchProbe):
            continue
        if check.probe.element == "rest":
            rest = [str(change) for change in difference.changes if change.path[:2] not in _named(switch)]
            yield judge(check, "; ".join(rest) or AS_PLANNED, share, difference.left)
        else:
            place = (_PARTS[check.probe.element], check.probe.key)
            own = [change for change in difference.changes if change.path[:2] == place]
            yield judge(check, "; ".join([element(state, check.probe), *_told(own)]), share)


def _named(switch: SwitchPlan) -> set[tuple[str, ...]]:
    """The places of all elements of *switch* that have a claim of their own."""
    return {
        *(("vlans", str(vlan.vid)) for vlan in switch.vlans),
        *(("ports", port.name) for port in switch.ports),
        *(("svis", str(svi.vid)) for svi in switch.svis),
    }


def _told(changes: Sequence[Change]) -> list[str]:
    """Each field that differs; a thing that is missing as a whole is told by its phrase already."""
    return [
        f"{change.field}: {change.old or '(none)'}, planned {change.new or '(none)'}"
        for change in changes
        if change.field
    ]


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
