"""A node leaves: what is refused before anything is touched, the order of steps, a kill after any of them, and what is said to stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from pinion.bringup.cluster_node import ForbiddenError
from pinion.bringup.decommission import (
    Notes,
    NotReadyError,
    Result,
    Survey,
    Wish,
    carry_out,
    not_stated,
    own_changes,
    own_checks,
    stays,
    survey,
)
from pinion.bringup.host_shell import UnreachedError
from pinion.bringup.leaving_host import Counted, Wiped
from pinion.bringup.refusing import Refused
from pinion.bringup.stack import Foreseen
from pinion.checks.model import Check, Finding, judge
from pinion.plan import Plan, plan
from pinion.plan.cluster import MEMBERS
from pinion.plan.leaving import staying
from pinion.plan.model import HostPlan
from pinion.site.model import Site

LAB = Path(__file__).parents[3] / "inventories/lab/site.yml"
NODE = "pi-03"
SERIAL = 0x5F2A
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RECORD = Foreseen("pinion:netbox:Device", NODE, "update", ("status",))
LABEL = Foreseen("pinion:cluster:Node", NODE, "delete")
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
MEMBER = Foreseen(CONFIG_MAP, MEMBERS, "update", ("data.pi-03",))
MEMBER_QUOTED = Foreseen(CONFIG_MAP, MEMBERS, "update", ('data["pi-03"]',))
PORT = Foreseen("pinion:switch:Config", "tor-1", "update", ("ports.Ethernet3.enabled", "ports.Ethernet3.access_vlan"))
ENDS = Foreseen("pinion:netbox:Device", "tor-1", "update", ("interfaces.Ethernet3.enabled",))
OTHER_PORT = Foreseen("pinion:switch:Config", "tor-1", "update", ("ports.Ethernet3.enabled", "ports.Ethernet4.enabled"))
KEY = Counted(path="/var/lib/pinion-identity", files=5, bytes=4096, overwritten=True)


class PowerCutError(Exception):
    """The operator's machine is gone."""


@dataclass
class World:
    """Everything in memory. *cut_after*: number of deeds after which the power fails."""

    changes: list[Foreseen] = field(default_factory=lambda: [RECORD, LABEL, PORT, ENDS])
    certificate: int | None = SERIAL
    data: list[Counted] = field(default_factory=lambda: [KEY])
    reachable: bool = True
    revoked: list[int] = field(default_factory=list)
    refused: bool = False
    node: bool = True
    refuses: tuple[str, ...] = ()
    holds: bool = True
    forbidden: bool = False
    deeds: list[str] = field(default_factory=list)
    cut_after: int | None = None

    def _deed(self, name: str) -> None:
        self.deeds.append(name)

    def _cut(self) -> None:
        if self.cut_after is not None and len(self.deeds) >= self.cut_after:
            raise PowerCutError

    def _reach(self) -> None:
        if not self.reachable:
            raise UnreachedError("pi-03 (10.77.101.12): no route to host")

    def foreseen(self) -> Sequence[Foreseen]:
        return list(self.changes)

    def update(self, tell: Callable[[str], None]) -> int:
        self._deed("update")
        count, self.changes, self.reachable = len(self.changes), [], False
        self._cut()
        tell("update tor-1")
        return count

    def serial(self, host: HostPlan) -> int | None:
        assert host.address == "10.77.101.12"
        self._reach()
        return self.certificate

    def look(self, host: HostPlan) -> Wiped:
        del host
        self._reach()
        return Wiped(there=tuple(self.data), media=("mmcblk0, SD card or eMMC",))

    def wipe(self, host: HostPlan) -> Wiped:
        del host
        self._reach()
        self._deed("wipe")
        gone, self.data, self.certificate = tuple(self.data), [], None
        self._cut()
        return Wiped(
            wiped=gone,
            media=("mmcblk0, SD card or eMMC",),
            trimmed={"/": "not trimmed: not supported"},
            failed=self.refuses,
        )

    def refuse(self, node: str) -> Refused | None:
        assert node == NODE
        if not self.refused:
            self._deed("refuse")
            self.refused = True
            self._cut()
        return Refused(NOW, NOW + timedelta(days=7))

    def revoke(self, serial: int, reason: str) -> bool:
        assert reason == "decommissioned"
        new = serial not in self.revoked
        if new:
            self._deed("revoke")
            self.revoked.append(serial)
            self._cut()
        return new

    def drain(self, node: str) -> str | None:
        assert node == NODE
        if not self.node:
            return None
        self._deed("drain")
        self._cut()
        return "cordoned, 0 pods evicted"

    def forget(self, node: str) -> bool:
        assert node == NODE
        if self.forbidden:
            raise ForbiddenError('nodes "pi-03" is forbidden')
        was, self.node = self.node, False
        if was:
            self._deed("forget")
            self._cut()
        return was

    def verify(self, wanted: Sequence[Check]) -> Sequence[Finding]:
        return [judge(check, check.expected if self.holds else "access 101", 0.0) for check in wanted]


def site(*leaving: str) -> Site:
    return Site.model_validate(yaml.safe_load(LAB.read_text()) | {"decommissioned": list(leaving)})


PLAN = plan(site(NODE))
HOST = next(host for host in staying(site(NODE), NODE).hosts if host.name == NODE)


def quiet(_step: str, _said: str) -> None:
    """Nobody listens."""


def run(world: World, notes: Notes, wish: Wish) -> tuple[Survey, Result]:
    found = survey(PLAN, HOST, wish, world, notes)
    return found, carry_out(PLAN, HOST, wish, found, world, notes, quiet, lambda: NOW)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "decommission" / "pi-03.json")


# --- before anything is touched -------------------------------------------------------------------------------------------


def test_what_to_write_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "site.yml"
    file.write_text("version: 1\nsite: lab\n")
    said = not_stated(site(), file, NODE)
    assert said is not None
    assert said.startswith(f"{file}:3 ")
    assert said.endswith("write there: decommissioned: [pi-03]")
    file.write_text("version: 1\ndecommissioned: [nv-1]\nsite: lab\n")
    said = not_stated(site("pi-01"), file, NODE)
    assert said is not None
    assert f"{file}:2 " in said
    assert said.endswith("decommissioned: [pi-01, pi-03]")
    assert not_stated(site(NODE), file, NODE) is None


def test_changes_of_the_node_are_told_from_others() -> None:
    strange = [
        OTHER_PORT,
        Foreseen("pinion:netbox:Device", "pi-02", "update", ("mtu",)),
        Foreseen("pinion:netbox:Device", "tor-1", "update", ("serial",)),
        Foreseen("pinion:netbox:Device", "tor-1", "create"),
        Foreseen("pinion:cluster:Release", "hello", "update", ("values",)),
        Foreseen(CONFIG_MAP, MEMBERS, "update", ('data["pi-03"]', 'data["pi-04"]')),
        Foreseen(CONFIG_MAP, MEMBERS, "update"),
        Foreseen(CONFIG_MAP, MEMBERS, "delete"),
        Foreseen(CONFIG_MAP, "another", "update", ('data["pi-03"]',)),
    ]
    own = [RECORD, LABEL, PORT, ENDS, MEMBER, MEMBER_QUOTED]
    assert own_changes(PLAN, NODE, [*own, *strange]) == (own, strange)


def test_ports_with_a_slash_are_the_node_s_own_too() -> None:
    stated = yaml.safe_load((LAB.parents[1] / "dc-rack-12/site.yml").read_text()) | {"decommissioned": ["nv-1"]}
    compiled: Plan = plan(Site.model_validate(stated))
    change = Foreseen("pinion:switch:Config", "tor-2", "update", ('ports["Ethernet49/1"].enabled',))
    assert own_changes(compiled, "nv-1", [change]) == ([change], [])
    assert len(own_checks(compiled, "nv-1")) == 1 + 9


def test_other_changes_are_a_surprise_that_only_a_word_allows(notes: Notes) -> None:
    world = World(changes=[RECORD, OTHER_PORT])
    with pytest.raises(NotReadyError, match=r"(?s)more than pi-03; nothing was touched.*Ethernet4.*--others"):
        survey(PLAN, HOST, Wish(), world, notes)
    assert world.deeds == []
    survey(PLAN, HOST, Wish(others=True), world, notes)


def test_a_host_that_is_not_reached_names_the_other_ways(notes: Notes) -> None:
    world = World(reachable=False)
    with pytest.raises(
        NotReadyError, match=r"(?s)no route to host.*--serial HEX, or say --offline.*nothing was touched"
    ):
        survey(PLAN, HOST, Wish(), world, notes)
    with pytest.raises(NotReadyError, match="without --wipe"):
        survey(PLAN, HOST, Wish(wipe=True, serial=SERIAL), world, notes)
    assert world.deeds == []
    assert survey(PLAN, HOST, Wish(serial=SERIAL), world, notes).serial == SERIAL


# --- the steps ------------------------------------------------------------------------------------------------------------


def test_revoked_first_then_wiped_then_shut_and_proved(notes: Notes) -> None:
    world = World()
    found, result = run(world, notes, Wish(wipe=True))
    assert world.deeds == ["drain", "refuse", "revoke", "wipe", "update", "forget"]
    assert world.revoked == [SERIAL]
    assert [step for step, _ in result.steps] == [
        "drain",
        "renewal",
        "certificate",
        "wipe",
        "stack",
        "cluster",
        "verify",
    ]
    assert result.problems == []
    assert len(result.findings) == 2
    assert result.report is not None
    left = "\n".join(stays(HOST, found, result.report))
    assert "SSH host key" in left
    assert "mmcblk0, SD card or eMMC: the medium may keep old copies" in left
    assert "/: not trimmed" in left


def test_without_wipe_it_says_what_is_left(notes: Notes) -> None:
    world = World()
    found, result = run(world, notes, Wish())
    assert "wipe" not in world.deeds
    assert world.data == [KEY]
    assert "/var/lib/pinion-identity" in stays(HOST, found, result.report)[0]
    assert "not wiped" in stays(HOST, found, result.report)[0]


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6])
def test_a_run_that_is_killed_after_any_step_goes_on(notes: Notes, after: int) -> None:
    world = World(cut_after=after)
    with pytest.raises(PowerCutError):
        run(world, notes, Wish(wipe=True))
    world.cut_after = None
    found, result = run(world, notes, Wish(wipe=True))
    assert result.problems == []
    assert world.revoked == [SERIAL]
    assert world.data == []
    assert world.changes == []
    assert world.node is False
    assert found.serial == SERIAL, "known although the host has no certificate any more"


def test_again_when_all_is_done_changes_nothing(notes: Notes) -> None:
    world = World()
    _, first = run(world, notes, Wish(wipe=True))
    world.deeds.clear()
    _, again = run(world, notes, Wish(wipe=True))
    assert world.deeds == []
    assert again.problems == []
    assert again.report == first.report
    assert ("stack", "held this already") in again.steps
    assert any("was done before (2026-11-21T12:00:00+00:00)" in said for _, said in again.steps)


def test_a_dead_node_is_asked_for_nothing(notes: Notes) -> None:
    world = World(reachable=False)
    found, result = run(world, notes, Wish(offline=True))
    assert world.deeds == ["refuse", "update", "forget"]
    assert ("certificate", "not revoked: its number is not known; it ends by itself") in result.steps
    assert "a certificate whose number is not known counts until it ends, and is not renewed" in stays(
        HOST, found, result.report
    )
    _, result = run(World(reachable=False), notes, Wish(offline=True, serial=SERIAL))
    assert any("is not renewed any more" in said for _, said in result.steps)


def test_what_could_not_be_wiped_or_proved_is_a_problem(notes: Notes) -> None:
    _, result = run(World(refuses=("/var/lib/pinion: Read-only file system",), holds=False), notes, Wish(wipe=True))
    assert result.problems[0] == "not wiped: /var/lib/pinion: Read-only file system"
    assert len(result.problems) == 3
    assert notes.read().wiped is None, "so that another run does not take it for wiped"


def test_who_may_not_delete_nodes_gets_all_the_rest(notes: Notes) -> None:
    world = World(forbidden=True)
    _, result = run(world, notes, Wish(wipe=True, drain=False))
    assert world.deeds == ["refuse", "revoke", "wipe", "update"]
    assert len(result.findings) == 2
    assert result.problems == []
    assert len(result.left) == 1
    assert result.left[0].endswith("kubectl delete node pi-03")


def test_a_node_without_a_certificate_and_a_site_without_an_authority(notes: Notes) -> None:
    _, result = run(World(certificate=None), notes, Wish())
    assert ("certificate", "not revoked: the host has none") in result.steps
    world = World(reachable=False)
    bare = PLAN.model_copy(update={"authority": None})
    found = survey(bare, HOST, Wish(), world, notes)
    result = carry_out(bare, HOST, Wish(), found, world, notes, quiet)
    assert result.problems == []
    assert world.revoked == []
    assert not world.refused


def test_of_a_stolen_node_nothing_is_asked_and_its_renewal_is_refused_first_of_all(notes: Notes) -> None:
    world = World(reachable=False)
    found, result = run(world, notes, Wish(stolen=True))
    assert world.deeds == ["refuse", "update", "forget"]
    assert found.serial is None, "whoever answers there says what he likes"
    assert result.problems == []
    assert (
        "renewal",
        "refused by name; whatever was copied from pi-03, renewed or rekeyed before is over by 2026-11-28 12:00 UTC",
    ) in (result.steps)


def test_a_note_that_nobody_can_read_is_none(notes: Notes) -> None:
    notes.path.parent.mkdir()
    notes.path.write_text("{half")
    assert notes.read().serial is None
