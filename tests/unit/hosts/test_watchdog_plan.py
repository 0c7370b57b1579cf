"""What the plan says of the concern watchdog."""

from __future__ import annotations

import pytest
from unit.hosts.nodes import concern, file
from unit.hosts.sites import DC, LAB, planned

from pinion.plan.concerns.watchdog import FILE
from pinion.plan.model import DeviceKind
from pinion.site.catalog import Evidence

PI = DeviceKind.PI


def test_every_host_has_it_when_the_site_says_so_and_none_otherwise() -> None:
    assert all("watchdog" in host.concerns for host in planned(DC, concerns={"watchdog": {}}).hosts)
    assert not any("watchdog" in host.concerns for host in planned(DC, concerns={}).hosts)


@pytest.mark.parametrize(
    ("settings", "runtime", "reboot"),
    [
        ({}, "30s", "5min"),
        ({"timeout": "90s", "reboot_timeout": "30min"}, "1min 30s", "30min"),
        ({"timeout": "10min", "reboot_timeout": "1min"}, "10min", "1min"),
    ],
)
def test_times_are_written_as_systemd_prints_them(settings: dict[str, str], runtime: str, reboot: str) -> None:
    found = concern(planned(DC, concerns={"watchdog": settings}), PI, "watchdog")
    lines = file(found, FILE).content.splitlines()
    assert f"RuntimeWatchdogSec={runtime}" in lines
    assert f"RebootWatchdogSec={reboot}" in lines
    expected = {claim.name: claim.expected for claim in found.claims}
    assert expected == {"RuntimeWatchdogSec": runtime, "RebootWatchdogSec": reboot, "device": "yes"}


def test_a_container_only_holds_the_text() -> None:
    found = concern(planned(LAB, concerns={"watchdog": {}}), PI, "watchdog")
    assert file(found, FILE).evidence is Evidence.RENDERED
    assert {claim.evidence for claim in found.claims} == {Evidence.RENDERED}
    assert "device" not in {claim.name for claim in found.claims}
