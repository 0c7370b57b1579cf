"""What another concern states now is never away, and in the end is what it was before either of them: `access` out of `os_tuning`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from doubles.hosts import MemoryHost
from unit.hosts.sites import ADMIN, LAB, planned
from unit.hosts.test_engine_whole import BOOT, BOTH, EDGE, fresh, seen
from unit.hosts.test_plans_in_memory import image

from pinion.drivers.hosts.onhost import engine, main
from pinion.drivers.hosts.onhost.wanted import Concern, User, concern
from pinion.drivers.hosts.requests import selection
from pinion.plan.concerns.access import ADMIN_USER, KEYS_FOLDER, SSHD_FILE
from pinion.plan.hosts import concern_names

PI = next(
    host
    for host in planned(LAB, concerns=None, access={"admins": [ADMIN], "authorities": [ADMIN]}).hosts
    if host.name == "pi-01"
)
#: An account that nothing uses: the former version made it.
UNUSED = User("edge-runtime", True, "Edge inference runtime", "/var/lib/edge-runtime", False, "/usr/sbin/nologin", ())
RIGHTS = f"/etc/sudoers.d/60-pinion-{ADMIN_USER}"


def request(*only: str) -> dict[str, object]:
    """What is asked of the Pi, through JSON as on the wire."""
    asked: dict[str, object] = json.loads(json.dumps(selection(PI.model_dump(mode="json"), concern_names(), only)))
    return asked | {"who": "test", "run": "run-2"}


ACCESS, TUNING = (concern(PI.concerns[name].model_dump(mode="json")) for name in ("access", "os_tuning"))
#: As it was when one concern had it all.
FORMER = replace(
    TUNING,
    users=(*ACCESS.users, UNUSED),
    files=(
        *TUNING.files,
        *(replace(file, content=file.content.replace("concern access", "concern os_tuning")) for file in ACCESS.files),
    ),
    units=ACCESS.units,
)


def former() -> MemoryHost:
    """A host that the former version has converged."""
    host = image([FORMER])
    run(host, [FORMER], "run-1")
    return host


def run(host: MemoryHost, wanted: Sequence[Concern], name: str) -> engine.Report:
    """A whole run with its fresh login; what it changes is what a check foretold."""
    foretold = engine.check(host.machine(), wanted, whole=True)
    report = engine.converge(host.machine(), wanted, wait=0, who="test", whole=True, name=name)
    assert report.changes == foretold.changes
    if report.confirm:
        engine.confirm(host.machine(), report.confirm, wait=0, who="test")
    return report


def reachable(host: MemoryHost) -> Callable[[str], None]:
    """A step that refuses to see the host without what administrators log in with."""

    def step(_: str) -> None:
        assert ADMIN_USER in host.accounts
        assert {SSHD_FILE, RIGHTS, f"{KEYS_FOLDER}/{ADMIN_USER}"} <= set(host.files)
        assert "PasswordAuthentication no" in host.files[SSHD_FILE].content

    return step


def things(report: engine.Report) -> list[tuple[str, str, str]]:
    return [(change.concern, change.kind, change.subject) for change in report.changes]


def test_logins_change_their_concern_and_are_never_away() -> None:
    host, untouched = former(), image([FORMER])
    assert ADMIN_USER in host.accounts
    assert UNUSED.name in host.accounts
    host.step = reachable(host)
    report = run(host, [ACCESS, TUNING], "run-2")
    assert things(report) == [("access", "file", SSHD_FILE), ("os_tuning", "user", UNUSED.name)]
    assert report.confirm == ("access",)
    assert UNUSED.name not in host.accounts
    assert run(host, [ACCESS, TUNING], "run-3").changes == ()
    host.step = lambda _: None
    run(host, [], "run-4")
    host.packages, host.read_by = untouched.packages, untouched.read_by
    assert seen(host) == seen(untouched)


def steps_of_the_move() -> int:
    host = former()
    steps: list[str] = []
    host.step = steps.append
    run(host, [ACCESS, TUNING], "run-2")
    return len(steps)


class Killed(BaseException):
    """The process was killed: nothing of it runs on."""


@pytest.mark.parametrize("number", range(steps_of_the_move()))
def test_a_run_killed_while_they_change_it_is_finished_by_the_next(number: int) -> None:
    host, done = former(), former()
    run(done, [ACCESS, TUNING], "run-2")
    there, left = reachable(host), [None] * number

    def step(name: str) -> None:
        there(name)
        if not left:
            raise Killed
        left.pop()

    host.step = step
    with pytest.raises(Killed):
        run(host, [ACCESS, TUNING], "run-2")
    host.locked_by, host.step = None, there
    run(host, [ACCESS, TUNING], "run-3")
    assert seen(host) == seen(done)


@pytest.mark.parametrize("only", ["os_tuning", "access"])
def test_a_run_of_one_of_them_leaves_the_other_s(only: str) -> None:
    host = former()
    host.step = reachable(host)
    asked = request(only)
    foretold = main.answer(asked | {"action": "check"}, host.machine())
    before = seen(former())
    assert seen(host) == before, "a check changed something"
    report = main.answer(asked | {"action": "apply"}, host.machine())
    assert report.changes == foretold.changes
    mine = {"access": [("access", "file", SSHD_FILE)], "os_tuning": [("os_tuning", "user", UNUSED.name)]}
    assert things(report) == mine.pop(only)
    engine.confirm(host.machine(), report.confirm, wait=0, who="test")
    ((rest,),) = mine.values()
    assert things(run(host, [ACCESS, TUNING], "run-3")) == [rest]
    done = former()
    run(done, [ACCESS, TUNING], "run-2")
    assert seen(host) == seen(done)


def test_the_way_back_hands_it_back() -> None:
    host = former()
    before = seen(host)
    host.step = reachable(host)
    run(host, [ACCESS, TUNING], "run-2")
    report = engine.back(host.machine(), "run-2", wait=0, who="test", name="run-3")
    engine.confirm(host.machine(), report.confirm, wait=0, who="test")
    assert seen(host) == before


def test_every_kind_of_thing_is_handed_over() -> None:
    host, untouched = fresh(), fresh()
    run(host, BOTH, "run-1")
    there = copy.deepcopy(seen(host))
    heirs = [replace(BOOT, name="boot_files"), replace(EDGE, name="serving")]
    assert things(run(host, heirs, "run-2")) == []
    assert sorted(host.journals) == ["boot_files", "serving"]
    assert seen(host) == there | {"journals": host.journals}
    run(host, [], "run-3")
    host.units.pop("edge.service")  # off; systemd forgets a unit that has no file
    assert seen(host) == seen(untouched)


def test_a_package_stays_with_the_concern_that_brought_it_as_long_as_that_names_it() -> None:
    host = fresh()
    brought, other = Concern("brought", packages=("llama",)), Concern("other", packages=("llama",))
    run(host, [brought], "run-1")
    run(host, [other, brought], "run-2")
    assert sorted(host.journals) == ["brought"]
    run(host, [other], "run-3")
    assert sorted(host.journals) == ["other"]
    assert "llama" in host.packages
    run(host, [], "run-4")
    assert "llama" not in host.packages
