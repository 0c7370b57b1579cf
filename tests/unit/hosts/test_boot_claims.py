"""What only a boot brings about on hardware: it stops no first run, and nothing else excuses it. The plan of dc-rack-12, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from doubles.hosts import MemoryHost
from unit.hosts.images import asked, image
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.bringup.rollout import Rollout, roll_out
from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, Finding, judge
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.onhost import engine
from pinion.plan import Plan
from pinion.plan.concerns.gpu_driver import PIN_FILE

#: What a board or server cannot show before it was booted with what its concerns placed, by the end of the check's name.
PI = {
    "pi_boot.argument.cgroup_enable=memory",
    "pi_boot.claim.cgroup.memory",
    "pi_boot.claim.eeprom",
    "pi_tuning.claim.swap",
    "watchdog.claim.device",
    "accelerator.claim.link",
    "accelerator.claim.chip",
}
GPU = {
    "cpu_isolation.claim.isolated",
    "cpu_isolation.claim.tickless",
    "cpu_isolation.claim.rcu_nocbs",
    "cpu_isolation.claim.irqaffinity",
    "nic_tuning.claim.settings",
    "gpu_driver.claim.module",
    "gpu_driver.claim.gpus",
    "gpu_driver.claim.modes",
    "gpu_driver.claim.fabric",
    "container_runtime.claim.devices",
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(DC, access={"admins": [ADMIN]})


@dataclass
class Real:
    """One host of *plan*. *unbooted*: what it cannot show yet."""

    plan: Plan
    name: str
    unbooted: set[str] = field(default_factory=set)
    host: MemoryHost = field(init=False)

    def __post_init__(self) -> None:
        (stated,) = [host for host in self.plan.hosts if host.name == self.name]
        self.plan = self.plan.model_copy(update={"hosts": (stated,)})
        self.concerns = asked(stated)
        self.host = image(self.concerns)

    def converge(self, names: Sequence[str]) -> dict[str, HostResult]:
        report = engine.converge(self.host.machine(), self.concerns, wait=0, who="test", whole=True, name="run")
        changes = [{"concern": c.concern, "kind": c.kind, "subject": c.subject} for c in report.changes]
        return {name: HostResult(changes=changes, reboot=list(report.reboot)) for name in names}

    def verify(self, _: Sequence[str]) -> list[Finding]:
        return [judge(check, self.says(check), 0.0) for check in host_checks(self.plan)]

    def says(self, check: Check) -> str:
        """What the host would answer."""
        name = check.id.removeprefix(f"host.{self.name}.")
        _, kind, subject = name.split(".", 2)
        if kind == "unit":
            state = self.host.units[subject]
            said = "masked" if state.masked else "enabled" if state.enabled else "disabled"
            return f"{said} {'active' if state.active else 'inactive'}"
        return "not yet" if name in self.unbooted else check.expected

    def run(self) -> Rollout:
        """A run of this host alone, with its checks."""
        return roll_out([(self.name,)], self.converge, self.verify)

    def boot(self) -> None:
        """All that waited for a boot has had one; what is enabled runs."""
        self.host.waiting.clear()
        self.host.units = {name: replace(unit, active=unit.enabled) for name, unit in self.host.units.items()}


@pytest.mark.parametrize(("name", "unbooted", "units"), [("pi-01", PI, 0), ("nv-1", GPU, 5)])
def test_the_first_run_goes_on_and_after_the_boot_all_must_hold(
    plan: Plan, name: str, unbooted: set[str], units: int
) -> None:
    real = Real(plan, name, unbooted)
    first = real.run()
    assert first.stops == []
    assert first.waves[0].after_boot == len(unbooted) + units
    again = real.run()
    assert (again.stops, again.waves[0].changed) == ([], 0), "it still waits"
    real.boot()
    late = real.run()
    assert {stop.what.split(":")[0].removeprefix(f"check host.{name}.") for stop in late.stops} == unbooted
    real.unbooted = set()
    done = real.run()
    assert (done.stops, done.waves[0].after_boot) == ([], 0)


def test_an_accelerator_that_is_added_later_asks_for_the_boot_that_its_driver_needs(plan: Plan) -> None:
    real = Real(plan, "pi-01")
    whole = real.concerns
    real.concerns = [concern for concern in whole if concern.name != "accelerator"]
    real.run()
    real.boot()
    real.concerns, real.unbooted = whole, {"accelerator.claim.chip"}
    added = real.run()
    assert added.results["pi-01"].reboot == ["package hailo-h10-all"]
    assert (added.stops, added.waves[0].after_boot) == ([], 1)
    real.unbooted = {"accelerator.claim.link"}  # config.txt has been read: nothing that waits would bring it
    assert [stop.host for stop in real.run().stops] == ["pi-01"]


def test_another_version_of_the_driver_waits_for_the_boot_with_all_that_needs_it(plan: Plan) -> None:
    real = Real(plan, "nv-1")
    real.run()
    real.boot()
    assert real.run().stops == []
    pinned = [
        replace(concern, files=tuple(replace(f, content="580.96") if f.path == PIN_FILE else f for f in concern.files))
        for concern in real.concerns
    ]
    real.concerns = pinned
    for unit in real.host.units:
        if unit.startswith("nvidia-"):  # the new one does not talk to the module that is loaded
            real.host.units[unit] = replace(real.host.units[unit], active=False)
    files = [check for check in host_checks(real.plan) if check.id.endswith(PIN_FILE)]
    assert len(files) == 1
    done = real.run()
    assert done.results["nv-1"].reboot == [PIN_FILE]
    assert done.stops == []
    assert done.waves[0].after_boot == 4, "those units"


@pytest.mark.parametrize("site", [DC, LAB], ids=lambda path: path.parent.name)
def test_what_is_waited_for_is_what_the_host_can_say(site: Path) -> None:
    stated = planned(site)
    said = {host.name: {r for concern in host.concerns.values() for r in concern.boot_reasons} for host in stated.hosts}
    for check in host_checks(stated):
        assert {*check.after_boot} <= said.get(check.subject, set()), check.id
