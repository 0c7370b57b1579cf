"""Probe NetBox: each object of the plan is compared whole with what NetBox holds, by the driver's own diff."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pinion.checks.model import AS_PLANNED, Check, Finding, RecordProbe, judge, not_run
from pinion.checks.probers import Prober
from pinion.drivers.netbox import NetBoxDriver, NetBoxError, UnitDiff, device_record, site_records, vlan_record
from pinion.plan.model import Plan


def record_prober(driver: NetBoxDriver) -> Prober:
    """A prober for RecordProbe; the reads of all objects arrive together, so they become few bulk calls."""

    def compare(plan: Plan, probe: RecordProbe) -> UnitDiff:
        if probe.object == "site":
            return driver.sites.diff(site_records(plan))
        if probe.object == "vlan":
            return driver.vlans.diff(vlan_record(plan, probe.name))
        return driver.devices.diff(device_record(plan, probe.name))

    def one(plan: Plan, check: Check, probe: RecordProbe) -> Finding:
        started = time.monotonic()
        try:
            difference = compare(plan, probe)
        except NetBoxError as error:
            return not_run(check, str(error))
        return judge(check, _words(difference), time.monotonic() - started)

    def prober(plan: Plan, checks: Sequence[Check]) -> list[Finding]:
        mine = [(check, check.probe) for check in checks if isinstance(check.probe, RecordProbe)]
        with ThreadPoolExecutor(max_workers=max(1, min(64, len(mine)))) as pool:
            return list(pool.map(lambda pair: one(plan, *pair), mine))

    return prober


def _words(difference: UnitDiff) -> str:
    if not difference.exists:
        return "not in NetBox"
    if difference.conflicts:
        return "; ".join(f"{conflict.object}: {conflict.reason}" for conflict in difference.conflicts)
    if difference.changes:
        return "; ".join(
            f"{change.path} is missing"
            if change.action == "add"
            else f"{change.path} is {change.before!r}, planned {change.after!r}"
            for change in difference.changes
        )
    return AS_PLANNED
