"""Every host of every site, with all its concerns, in memory: it comes about, the second run finds nothing, all of it goes again."""

from __future__ import annotations

import pytest
from doubles.hosts import MemoryHost
from unit.hosts.images import asked, image
from unit.hosts.sites import ADMIN, DC, LAB, planned

from pinion.drivers.hosts.onhost import engine, wanted
from pinion.plan.model import HostPlan

#: Every host of both sites, as their files state them, with an administrator.
HOSTS = [host for path in (LAB, DC) for host in planned(path, access={"admins": [ADMIN]}).hosts]


def seen(host: MemoryHost) -> dict[str, object]:
    """What anybody but the program can see."""
    parts = ("accounts", "directories", "files", "sysctls", "units")
    return {part: dict(getattr(host, part)) for part in parts}


@pytest.mark.parametrize("plan", HOSTS, ids=[f"{host.name}-{host.evidence}" for host in HOSTS])
def test_all_concerns_of_a_host_come_and_go(plan: HostPlan) -> None:
    concerns = asked(plan)
    assert [concern.name for concern in concerns] == list(plan.concerns)
    host = image(concerns)
    before = seen(host)

    def run(wishes: list[wanted.Concern], name: str) -> engine.Report:
        foretold = engine.check(host.machine(), wishes, whole=True)
        report = engine.converge(host.machine(), wishes, wait=0, who="test", whole=True, name=name)
        assert report.changes == foretold.changes
        if report.confirm:
            engine.confirm(host.machine(), report.confirm, wait=0, who="test")
        return report

    first = run(concerns, "run-1")
    assert {change.concern for change in first.changes} == {concern.name for concern in concerns if placed(concern)}
    assert run(concerns, "run-2").changes == ()
    # one after the other, the last of them first: none leaves anything that another one placed
    for count in range(len(concerns) - 1, -1, -1):
        report = run(concerns[:count], f"without-{count}")
        assert {change.concern for change in report.changes} <= {concerns[count].name}
    assert seen(host) == before
    assert host.journals == {}


def placed(concern: wanted.Concern) -> bool:
    """Whether *concern* has anything to place."""
    return concern != wanted.Concern(concern.name)
