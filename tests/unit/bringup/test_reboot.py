"""A reboot in waves, on hosts and a cluster in memory: who is drained, rebooted, proved and let go, and what a killed run leaves."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from pinion.bringup import reboot
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.host_shell import HostRefusedError, UnreachedError, ask_each
from pinion.bringup.maintenance import Maintenance, Work, Worked
from pinion.bringup.reboot import Running
from pinion.bringup.rollout import Rollout, roll_out
from pinion.checks.hosts import host_checks
from pinion.checks.model import Finding, Outcome
from pinion.cli.maintenance import refuse_losses
from pinion.drivers.hosts.inventory import Login
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.plan.model import HostPlan
from pinion.site.catalog import Evidence
from pinion.site.find import site_file
from pinion.site.loader import load

PIS = ("pi-01", "pi-02", "pi-03")


class PowerCutError(Exception):
    """The operator's machine is gone."""


@dataclass
class World:
    """Hosts that reboot in memory. *down_for*: looks that find a rebooting host away."""

    nodes: set[str] = field(default_factory=lambda: {"pi-01", "pi-02"})
    waiting: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"pi-01": ("/boot/config.txt",)})
    cordoned: set[str] = field(default_factory=set)
    away: tuple[str, ...] = ()
    never_back: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    unwell: tuple[str, ...] = ()
    undrainable: tuple[str, ...] = ()
    no_cluster: bool = False
    cut_at: str = ""
    lost: dict[str, tuple[str, ...]] = field(default_factory=dict)
    boots: Counter[str] = field(default_factory=Counter)
    down: Counter[str] = field(default_factory=Counter)
    deeds: list[str] = field(default_factory=list)

    def _deed(self, text: str) -> None:
        self.deeds.append(text)
        if text == self.cut_at:
            raise PowerCutError

    def look(self, host: HostPlan) -> Running:
        if host.name in self.away or self.down[host.name]:
            self.down[host.name] -= 1
            raise UnreachedError(f"{host.name}: no route to host")
        return Running(f"boot {self.boots[host.name]}", self.waiting.get(host.name, ()))

    def _ask_cluster(self) -> None:
        if self.no_cluster:
            raise ClusterNodeError("kubectl get nodes: connection refused")

    def hold(self, node: str) -> str | None:
        self._ask_cluster()
        if node in self.undrainable:
            raise ClusterNodeError(f"kubectl drain {node}: a disruption budget holds its pods")
        if node not in self.nodes:
            return None
        self.cordoned.add(node)
        self._deed(f"drain {node}")
        return "cordoned, 2 pods evicted"

    def losses(self, node: str) -> tuple[str, ...]:
        self._ask_cluster()
        return self.lost.get(node, ())

    def restart(self, host: HostPlan) -> None:
        self.down[host.name] = 1_000_000 if host.name in self.never_back else 2
        self.boots[host.name] += 1
        if host.name not in self.again:
            self.waiting.pop(host.name, None)
        self._deed(f"reboot {host.name}")

    def held(self) -> frozenset[str]:
        self._ask_cluster()
        return frozenset(self.cordoned)

    def let_go(self, node: str) -> None:
        self.cordoned.remove(node)
        self._deed(f"uncordon {node}")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("lab")))


def maintenance(plan: Plan, world: World, *, drain: bool = True, told: list[str] | None = None) -> Maintenance:
    """The work in *world*, whose clock is as patient as its sleep is short."""
    hosts = {host.name: host for host in plan.hosts}
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def verify(names: Sequence[str]) -> Sequence[Finding]:
        part = plan.model_copy(update={"hosts": tuple(hosts[name] for name in names)})
        return [
            Finding(
                check=check,
                outcome=Outcome.FAILED if check.subject in world.unwell else Outcome.PROVED,
                found="x",
                evidence=Evidence.EMULATED,
                seconds=0.0,
            )
            for check in host_checks(part)
        ]

    heard = told if told is not None else []
    return Maintenance(hosts, world, verify, heard.append, 60, drain, sleep=sleep, clock=lambda: now)


def rebooting(work: Maintenance) -> Work:
    """A reboot of each host that answers now."""
    before = ask_each(list(work.hosts.values()), work.means.look)

    def boot(host: HostPlan, worked: Worked) -> None:
        state = before[host.name]
        assert isinstance(state, Running)
        work.boot(host, state, worked)

    return boot


def run(plan: Plan, world: World, *waves: Sequence[str], drain: bool = True) -> Rollout:
    """Reboot *waves* of hosts in *world*."""
    work = maintenance(plan, world, drain=drain)
    return roll_out([tuple(wave) for wave in waves], work.each(rebooting(work)), work.verify)


def test_drained_rebooted_proved_and_let_go_in_this_order(plan: Plan) -> None:
    world = World()
    done = run(plan, world, ["pi-01"], ["pi-03"])
    assert done.stops == []
    assert world.deeds == ["drain pi-01", "reboot pi-01", "uncordon pi-01", "reboot pi-03"], "pi-03 is in no cluster"
    assert done.waves[0].proved > 10
    assert [change["after"] for change in done.results["pi-01"].changes] == ["boot 1"]


def test_what_would_be_lost_is_known_before_anything_is_touched(plan: Plan) -> None:
    world = World(lost={"pi-02": ("pod a/b: no controller starts it again",)})
    assert maintenance(plan, world).losses(["pi-01", "pi-02"]) == {"pi-02": ("pod a/b: no controller starts it again",)}
    assert maintenance(plan, world, drain=False).losses(["pi-02"]) == {}, "they are cut off, which was said"
    assert world.deeds == []


def test_a_host_that_does_not_come_back_stops_the_run_and_stays_cordoned(plan: Plan) -> None:
    world = World(never_back=("pi-01",))
    done = run(plan, world, ["pi-01"], ["pi-02"])
    assert [stop.host for stop in done.stops] == ["pi-01"]
    assert "is not back after 60 s: pi-01: no route to host" in done.stops[0].what
    assert done.untouched == ("pi-02",)
    assert world.cordoned == {"pi-01"}


def test_a_host_that_is_back_but_not_as_planned_stays_cordoned(plan: Plan) -> None:
    world = World(unwell=("pi-02",))
    done = run(plan, world, ["pi-01", "pi-02"], ["pi-03"])
    assert {stop.host for stop in done.stops} == {"pi-02"}
    assert world.cordoned == {"pi-02"}
    assert done.untouched == ("pi-03",)
    assert maintenance(plan, world).take_up(PIS) == ((), ("pi-02",)), "nor does the next run let it go"
    world.unwell = ()
    assert maintenance(plan, world).take_up(PIS) == (("pi-02",), ())
    assert world.cordoned == set()


def test_a_host_that_asks_for_a_reboot_again_and_again_is_told(plan: Plan) -> None:
    world = World(again=("pi-01",))
    done = run(plan, world, ["pi-01"])
    assert [stop.what for stop in done.stops] == ["asks for a reboot again after one, for: /boot/config.txt"]
    assert world.cordoned == {"pi-01"}


def test_a_host_whose_pods_cannot_go_is_not_rebooted_unless_they_may_be_cut_off(plan: Plan) -> None:
    world = World(undrainable=("pi-01",))
    done = run(plan, world, ["pi-01"])
    assert "a disruption budget holds its pods" in done.stops[0].what
    assert world.deeds == []
    assert run(plan, world, ["pi-01"], drain=False).stops == []
    assert world.deeds == ["reboot pi-01"]


def test_without_draining_a_cluster_that_does_not_answer_stops_nothing_and_is_told(plan: Plan) -> None:
    world = World(no_cluster=True, cordoned={"pi-02"})
    with pytest.raises(ClusterNodeError):
        maintenance(plan, world).take_up(PIS)
    assert "connection refused" in run(plan, world, ["pi-01"]).stops[0].what
    assert world.deeds == []
    told: list[str] = []
    work = maintenance(plan, world, drain=False, told=told)
    assert work.take_up(PIS) == ((), ())
    assert roll_out([("pi-01",)], work.each(rebooting(work)), work.verify).stops == []
    assert world.deeds == ["reboot pi-01"]
    assert [line for line in told if "connection refused" in line] == [
        "no node is uncordoned now: kubectl get nodes: connection refused"
    ] * 2
    world.no_cluster = False
    assert maintenance(plan, world).take_up(PIS) == (("pi-02",), ()), "the next run lets go of what was left"


@pytest.mark.parametrize("cut_at", ["drain pi-01", "reboot pi-01", "uncordon pi-01"])
def test_after_a_run_that_was_killed_the_next_one_ends_where_it_would_have(plan: Plan, cut_at: str) -> None:
    world = World(cut_at=cut_at)
    with pytest.raises(PowerCutError):
        run(plan, world, ["pi-01"])
    world.cut_at = ""
    world.down.clear()
    found = ask_each(list(plan.hosts), world.look)
    due = [name for name, state in found.items() if isinstance(state, Running) and state.reasons]
    maintenance(plan, world).take_up([name for name in found if name not in due])
    assert run(plan, world, due).stops == [] if due else True
    assert world.cordoned == set()
    assert world.boots["pi-01"] == 1


def test_who_cannot_be_asked_is_told_and_does_not_keep_the_others_back(plan: Plan) -> None:
    found = ask_each(list(plan.hosts), World(away=("pi-02",)).look)
    assert found["pi-02"] == "pi-02: no route to host"
    assert found["pi-01"] == Running("boot 0", ("/boot/config.txt",))


def answering(said: str, code: int = 0) -> reboot.Run:
    """SSH that ends with *code* having said *said*."""

    def ssh(argv: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, code, said, "Connection refused" if code else "")

    return ssh


def test_what_a_host_says_of_itself(plan: Plan) -> None:
    host, access = plan.hosts[0], Login(None, None)
    said = 'b1f5\n77\n["/boot/firmware/config.txt"]\npackages: linux-image-6.12 libc6\n'
    assert reboot.look(host, access, answering(said)) == Running(
        "b1f5:77", ("/boot/firmware/config.txt", "packages: linux-image-6.12 libc6")
    )
    assert reboot.look(host, access, answering("b1f5\n77\n[]\n")).reasons == ()
    for nonsense in ("", "b1f5\n", "b1f5\nx\n[]\n", "b1f5\n7\n{\n"):
        with pytest.raises(HostRefusedError, match="cannot say what it is running"):
            reboot.look(host, access, answering(nonsense))
    with pytest.raises(UnreachedError):
        reboot.look(host, access, answering("", 255))


def test_losses_end_the_command_unless_they_are_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"pi-02": ("pod a/b: no controller starts it again",)}
    with pytest.raises(SystemExit) as ended:
        refuse_losses(lost, allowed=False)
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "pi-02: would be lost: pod a/b: no controller starts it again",
        "nothing was touched; move these elsewhere, or say --lose-pods to lose them",
    ]
    refuse_losses(lost, allowed=True)
    assert capsys.readouterr().err == "pi-02: is lost: pod a/b: no controller starts it again\n"
    refuse_losses({}, allowed=False)
