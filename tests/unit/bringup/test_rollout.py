"""A run in waves over hosts in memory: what stops it, what is then untouched, the way back, a thousand hosts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from doubles.hosts import MemoryHost
from rich.console import Console

from pinion.bringup.rollout import Rollout, roll_out
from pinion.checks.model import Check, Finding, HostProbe, Topic, judge, not_run
from pinion.cli.rollout_progress import ScreenProgress
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.onhost import engine
from pinion.drivers.hosts.onhost.machine import FileState, HostError
from pinion.drivers.hosts.onhost.wanted import Concern, File
from pinion.plan.model import DeviceKind, HostPlan, RolloutPlan
from pinion.plan.rollout import waves
from pinion.site.catalog import Evidence

PATH = "/etc/motd"
BOOT_FILE = "/boot/x"


def concern(content: str) -> Concern:
    """A concern with one file."""
    return Concern("motd", files=(File(PATH, "root", "root", 0o644, content, (), None, confirm=False),))


@dataclass
class Fleet:
    """Hosts in memory. *gone* cannot be reached; *broken* take the change and are not what was claimed after it.

    *waiting*: what a host waits for a boot because of; the claim hangs on `BOOT_FILE`.
    """

    count: int
    gone: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, MemoryHost] = field(default_factory=dict)
    verified: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hosts = {f"pi-{number:04}": MemoryHost() for number in range(1, self.count + 1)}
        for host in self.hosts.values():
            host.files[PATH] = FileState("before\n", "root", "root", 0o644)

    def waves(self) -> tuple[tuple[str, ...], ...]:
        plans = [
            HostPlan(
                name=name,
                kind=DeviceKind.PI,
                address="192.0.2.1",
                user="u",
                groups=("pis",),
                concerns={},
                evidence=Evidence.EMULATED,
                origin="o",
            )
            for name in self.hosts
        ]
        return waves(plans, RolloutPlan())

    def converge(self, names: Sequence[str]) -> dict[str, HostResult]:
        return {name: self._one(name, concern("after\n")) for name in names}

    def _one(self, name: str, wanted: Concern) -> HostResult:
        if name in self.gone:
            return HostResult(errors=["no route to host"])
        try:
            report = engine.converge(self.hosts[name].machine(), [wanted], wait=0, who="test", whole=True, name="run-1")
        except HostError as error:
            return HostResult(errors=[str(error)])
        return HostResult(
            changes=[{"concern": c.concern, "kind": c.kind, "subject": c.subject} for c in report.changes],
            reboot=[self.waiting[name]] if name in self.waiting else [],
        )

    def verify(self, names: Sequence[str]) -> list[Finding]:
        self.verified += names
        return [self._finding(name) for name in names]

    def _finding(self, name: str) -> Finding:
        check = Check(
            id=f"host.{name}.motd.file",
            topic=Topic.HOSTS,
            subject=name,
            claim="the greeting is",
            expected="after\n",
            probe=HostProbe(host=name, command="cat"),
            remedy="r",
            origin="o",
            best=Evidence.EMULATED,
            after_boot=(BOOT_FILE,),
        )
        return judge(check, "something else" if name in self.broken else self.hosts[name].files[PATH].content, 0.0)

    def touched(self) -> set[str]:
        return {name for name, host in self.hosts.items() if host.files[PATH].content != "before\n"}


def test_a_thousand_hosts_in_three_waves() -> None:
    fleet = Fleet(1000)
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert [len(wave.hosts) for wave in done.waves] == [1, 100, 899]
    assert [(wave.changed, wave.proved) for wave in done.waves] == [(1, 1), (100, 100), (899, 899)]
    assert done.stops == []
    assert done.untouched == ()
    assert len(fleet.touched()) == 1000
    again = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert sum(wave.changed for wave in again.waves) == 0


@pytest.mark.parametrize("fault", ["gone", "broken"])
def test_a_canary_that_fails_stops_the_run_before_anybody_else_is_touched(fault: str) -> None:
    fleet = Fleet(1000)
    getattr(fleet, fault).add("pi-0001")
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert len(done.untouched) == 999
    assert fleet.touched() <= {"pi-0001"}
    (stop,) = done.stops
    assert stop.host == "pi-0001"
    assert (
        stop.what
        == {
            "gone": "no route to host",
            "broken": "check host.pi-0001.motd.file: the greeting is 'after\\n', found 'something else'",
        }[fault]
    )


def test_a_wave_is_finished_and_the_next_is_not_begun() -> None:
    fleet = Fleet(50)
    second = fleet.waves()[1]
    fleet.gone.add(second[0])
    fleet.broken.add(second[-1])
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert [stop.host for stop in done.stops] == [second[0], second[-1]]
    assert fleet.touched() == {*fleet.waves()[0], *second[1:]}
    assert done.untouched == fleet.waves()[2]
    assert second[0] not in fleet.verified  # nobody asks a host that is not there


def test_a_host_without_an_answer_has_failed() -> None:
    done = roll_out([("a",), ("b",)], lambda _: {}, None)
    assert [(stop.host, stop.what) for stop in done.stops] == [("a", "no answer")]
    assert done.untouched == ("b",)


def test_only_what_was_changed_is_checked_when_all_is_verified_afterwards() -> None:
    fleet = Fleet(5)
    roll_out(fleet.waves(), fleet.converge, fleet.verify, changed_only=True)
    assert sorted(fleet.verified) == sorted(fleet.hosts)
    fleet.verified.clear()
    fleet.hosts["pi-0003"].files[PATH] = FileState("by hand\n", "root", "root", 0o644)
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify, changed_only=True)
    assert fleet.verified == ["pi-0003"]
    assert sum(wave.proved for wave in done.waves) == 1


def test_a_check_that_could_not_be_tried_stops_the_run() -> None:
    fleet = Fleet(2)
    checked = fleet.verify(["pi-0001"])[0].check
    done = roll_out(fleet.waves(), fleet.converge, lambda _: [not_run(checked, "connection lost")])
    assert "found 'connection lost'" in done.stops[0].what
    assert fleet.touched() == {"pi-0001"}


def test_what_only_a_boot_brings_about_does_not_stop_the_run() -> None:
    fleet = Fleet(3, waiting={"pi-0001": BOOT_FILE}, broken={"pi-0001"})
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert done.stops == []
    assert done.waves[0].after_boot == 1
    checked = fleet.verify(["pi-0001"])[0].check
    assert roll_out(fleet.waves(), fleet.converge, lambda _: [not_run(checked, "connection lost")]).stops


@pytest.mark.parametrize("waiting", [{}, {"pi-0001": "/boot/y"}, {"pi-0002": BOOT_FILE}])
def test_a_boot_that_nobody_waits_for_or_that_would_not_bring_it_is_no_excuse(waiting: dict[str, str]) -> None:
    fleet = Fleet(3, waiting=waiting, broken={"pi-0001"})
    done = roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert [stop.host for stop in done.stops] == ["pi-0001"]
    assert done.waves[0].after_boot == 0


def test_the_way_back_leads_to_where_the_hosts_were() -> None:
    fleet = Fleet(30)
    fleet.broken.add(fleet.waves()[1][0])
    roll_out(fleet.waves(), fleet.converge, fleet.verify)
    assert fleet.touched()
    for host in fleet.hosts.values():
        engine.back(host.machine(), "run-1", wait=0, who="test", name="run-2")
    assert fleet.touched() == set()


def shown(*, terminal: bool, fleet: Fleet) -> tuple[str, str, Rollout]:
    """What a run says on the screen and in the log."""
    screen, log = io.StringIO(), io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100, no_color=True)
    with ScreenProgress(log, console) as progress:
        done = roll_out(fleet.waves(), fleet.converge, fleet.verify, progress)
    return screen.getvalue(), log.getvalue(), done


def test_a_thousand_hosts_fit_one_screen_and_the_log_has_them_all() -> None:
    plain, log, _ = shown(terminal=False, fleet=Fleet(1000))
    assert plain.splitlines() == [
        "wave 1 of 3: pi-0001",
        "wave 1 of 3: 1 changed, 1 checks hold, 0 failed",
        "wave 2 of 3: 100 hosts",
        "wave 2 of 3: 100 changed, 100 checks hold, 0 failed",
        "wave 3 of 3: 899 hosts",
        "wave 3 of 3: 899 changed, 899 checks hold, 0 failed",
    ]
    assert len(log.splitlines()) == 1000
    assert "pi-0777: 1 changes: motd: file /etc/motd" in log
    bars, _, _ = shown(terminal=True, fleet=Fleet(1000))
    assert "899/899" in bars
    assert "pi-0777" not in bars


def test_the_log_names_what_waits_for_a_boot() -> None:
    fleet = Fleet(1, waiting={"pi-0001": BOOT_FILE}, broken={"pi-0001"})
    plain, log, _ = shown(terminal=False, fleet=fleet)
    assert plain.splitlines()[-1] == "wave 1 of 1: 1 changed, 0 checks hold, 0 failed, 1 checks wait for a reboot"
    said = "check host.pi-0001.motd.file: the greeting is 'after\\n', found 'something else'"
    assert log.splitlines()[-1] == f"pi-0001: WAITS FOR A BOOT: {said}"


def test_the_log_names_what_failed() -> None:
    _, log, _ = shown(terminal=False, fleet=Fleet(20, gone={"pi-0001"}))
    assert log.splitlines() == [
        "pi-0001: 0 changes",
        "pi-0001: FAILED: no route to host",
        "pi-0001: STOPPED: no route to host",
    ]
