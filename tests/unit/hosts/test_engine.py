"""The engine over a host in memory: first run, second run, kills at every step, what is taken back, what is refused."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import replace

import pytest
from doubles.hosts import MemoryHost

from pinion.drivers.hosts.onhost import engine
from pinion.drivers.hosts.onhost.machine import FileState, HostError, UnitState, UserState
from pinion.drivers.hosts.onhost.wanted import Concern, File, Sysctl, Unit, User

SSHD = File("/etc/sshd", "root", "root", 0o600, "new\n", ("ssh.service",), "sshd -t -f %s", confirm=True)
PLAIN = File("/etc/plain", "root", "root", 0o644, "plain\n", (), None, confirm=False)
OPS = User("ops", False, "Ops", "/home/ops", True, "/bin/bash", ("adm",))
CONCERN = Concern(
    name="os_tuning",
    packages=("ethtool", "tcpdump"),
    packages_absent=("rpcbind",),
    users=(OPS,),
    files=(PLAIN, SSHD),
    sysctls=(Sysctl("net.a", "1"),),
    units=(Unit("ssh.service", enabled=True, active=True),),
)


def fresh() -> MemoryHost:
    """A host as its image left it."""
    host = MemoryHost(
        known={"ethtool", "tcpdump"},
        packages={"rpcbind", "ethtool"},
        files={"/etc/sshd": FileState("old\n", "root", "root", 0o644)},
        sysctls={"net.a": "0"},
        units={"ssh.service": UnitState(enabled=False, active=True)},
    )
    host.reload("ssh.service")
    return host


def converge(host: MemoryHost, concern: Concern = CONCERN) -> engine.Report:
    return engine.converge(host.machine(), [concern], wait=0, who="test")


def state(host: MemoryHost) -> dict[str, object]:
    """Everything about *host* that somebody could see."""
    seen = {
        field.name: copy.deepcopy(getattr(host, field.name))
        for field in dataclasses.fields(host)
        if field.name != "step"
    }
    assert seen.pop("locked_by") is None
    return seen


def test_the_first_run_makes_it_so_and_the_second_changes_nothing() -> None:
    host = fresh()
    foretold = engine.check(host.machine(), [CONCERN])
    report = converge(host)
    assert report.changes == foretold.changes
    assert [(change.kind, change.subject) for change in report.changes] == [
        ("package", "tcpdump"),
        ("package", "rpcbind"),
        ("user", "ops"),
        ("file", "/etc/plain"),
        ("file", "/etc/sshd"),
        ("sysctl", "net.a"),
        ("unit", "ssh.service"),
    ]
    assert host.packages == {"ethtool", "tcpdump"}
    assert host.files["/etc/sshd"] == FileState("new\n", "root", "root", 0o600)
    assert host.read_by["ssh.service"]["/etc/sshd"].content == "new\n"
    assert host.sysctls == {"net.a": "1"}
    assert host.units["ssh.service"] == UnitState(enabled=True, active=True)
    again = converge(host)
    assert again.changes == ()
    assert again.confirm


def test_a_check_changes_nothing() -> None:
    host = fresh()
    before = state(host)
    assert engine.check(host.machine(), [CONCERN]).changes
    assert state(host) == before


class Killed(BaseException):
    """The process was killed: nothing of it runs on, not even `except Exception`."""


def kill_at(host: MemoryHost, number: int) -> list[str]:
    """Kill the run before its *number*-th step; the names of the steps that it came to."""
    steps: list[str] = []

    def step(name: str) -> None:
        if len(steps) == number:
            raise Killed
        steps.append(name)

    host.step = step
    return steps


def count_of_steps() -> int:
    host = fresh()
    steps = kill_at(host, 10_000)
    converge(host)
    return len(steps)


STEPS = count_of_steps()


def test_there_are_steps_to_kill_at() -> None:
    assert STEPS >= 10


@pytest.mark.parametrize("number", range(STEPS))
def test_a_run_killed_before_any_step_is_finished_by_the_next(number: int) -> None:
    untouched = fresh()
    converge(untouched)

    host = fresh()
    kill_at(host, number)
    with pytest.raises(Killed):
        converge(host)
    host.step = lambda _: None
    converge(host)
    assert state(host) == state(untouched)
    assert host.read_by["ssh.service"] == untouched.read_by["ssh.service"]
    assert converge(host).changes == ()

    engine.undo(host.machine(), ["os_tuning"], wait=0, who="test")
    assert host.journals == {}
    assert host.files == {"/etc/sshd": FileState("old\n", "root", "root", 0o644)}


def test_a_reload_that_a_kill_prevented_is_foretold_and_caught_up() -> None:
    host = fresh()
    steps = kill_at(host, STEPS)
    converge(host)
    host = fresh()
    kill_at(host, steps.index("reload"))
    with pytest.raises(Killed):
        converge(host)
    host.step = lambda _: None
    assert host.read_by["ssh.service"]["/etc/sshd"].content == "old\n"
    assert [change.kind for change in engine.check(host.machine(), [CONCERN]).changes] == ["reload"]
    converge(host)
    assert host.read_by["ssh.service"]["/etc/sshd"].content == "new\n"


def test_without_confirmation_the_host_puts_the_old_file_back() -> None:
    host = fresh()
    assert converge(host).confirm
    host.fire("os_tuning")
    assert host.files["/etc/sshd"].content == "old\n"
    assert host.read_by["ssh.service"]["/etc/sshd"].content == "old\n"
    with pytest.raises(HostError, match="already put back"):
        engine.confirm(host.machine(), ["os_tuning"], wait=0, who="test")
    assert [change.subject for change in converge(host).changes] == ["/etc/sshd"]


def test_confirmation_ends_the_guard() -> None:
    host = fresh()
    converge(host)
    engine.confirm(host.machine(), ["os_tuning"], wait=0, who="test")
    report = converge(host)
    assert not report.confirm
    assert not host.guards


def test_two_runs_may_both_confirm() -> None:
    host = fresh()
    assert converge(host).confirm == converge(host).confirm == ("os_tuning",)
    for _ in range(2):
        engine.confirm(host.machine(), ["os_tuning"], wait=0, who="test")
    assert host.files["/etc/sshd"].content == "new\n"


def test_the_guard_goes_back_to_what_was_last_confirmed() -> None:
    host = fresh()
    converge(host)
    converge(host, replace(CONCERN, files=(PLAIN, replace(SSHD, content="newer\n"))))
    host.fire("os_tuning")
    assert host.files["/etc/sshd"].content == "old\n"


def test_a_change_that_cannot_lock_us_out_asks_for_no_confirmation() -> None:
    host = fresh()
    assert not converge(host, replace(CONCERN, files=(PLAIN,))).confirm


def test_a_refused_file_replaces_nothing() -> None:
    host = fresh()
    host.refuse["/etc/sshd"] = "line 1: Bad configuration option: new"
    with pytest.raises(HostError, match=r"/etc/sshd: refused .*Bad configuration option"):
        converge(host)
    assert "/etc/plain" not in host.files
    assert host.files["/etc/sshd"].content == "old\n"
    assert not host.guards
    assert "reload" not in {change.kind for change in engine.check(host.machine(), [CONCERN]).changes}


def test_undo_takes_back_what_it_placed_and_nothing_else() -> None:
    host = fresh()
    before = state(host)
    converge(host)
    engine.confirm(host.machine(), ["os_tuning"], wait=0, who="test")
    host.files["/etc/foreign"] = FileState("foreign\n", "root", "root", 0o644)
    report = engine.undo(host.machine(), ["os_tuning"], wait=0, who="test")
    assert {change.subject for change in report.changes} >= {"tcpdump", "ops", "/etc/plain", "/etc/sshd", "net.a"}
    assert report.confirm
    engine.confirm(host.machine(), ["os_tuning"], wait=0, who="test")
    del host.files["/etc/foreign"]
    after = state(host)
    assert after.pop("packages") == {"ethtool"}  # rpcbind was removed on purpose and does not come back
    before.pop("packages")
    for memory in ("read_by", "history"):
        before[memory] = after[memory]
    assert after == before
    assert engine.undo(host.machine(), ["os_tuning"], wait=0, who="test").changes == ()


def test_what_the_concern_no_longer_states_goes() -> None:
    host = fresh()
    converge(host)
    smaller = replace(CONCERN, packages=("ethtool",), users=(), files=(SSHD,), sysctls=())
    report = converge(host, smaller)
    assert {(change.kind, change.subject) for change in report.changes} == {
        ("package", "tcpdump"),
        ("user", "ops"),
        ("file", "/etc/plain"),
        ("sysctl", "net.a"),
    }
    assert host.packages == {"ethtool"}
    assert "ops" not in host.accounts
    assert "/etc/plain" not in host.files
    assert host.sysctls["net.a"] == "0"
    assert converge(host, smaller).changes == ()


def test_a_package_that_was_there_before_stays() -> None:
    host = fresh()
    converge(host)
    engine.undo(host.machine(), ["os_tuning"], wait=0, who="test")
    assert "ethtool" in host.packages


def test_a_package_that_somebody_needs_now_stays_and_is_forgotten() -> None:
    host = fresh()
    converge(host)
    host.needs["tcpdump"] = {"ethtool"}
    engine.undo(host.machine(), ["os_tuning"], wait=0, who="test")
    assert "tcpdump" in host.packages
    assert host.journals == {}


def test_what_is_gone_already_is_forgotten() -> None:
    host = fresh()
    converge(host)
    host.packages.discard("tcpdump")
    smaller = replace(CONCERN, packages=("ethtool",))
    assert converge(host, smaller).changes == ()
    host.packages.add("tcpdump")  # by somebody else, later
    engine.undo(host.machine(), ["os_tuning"], wait=0, who="test")
    assert "tcpdump" in host.packages


def test_an_unwanted_package_that_is_needed_is_an_error_with_the_reason() -> None:
    host = fresh()
    host.needs["rpcbind"] = {"ethtool"}
    with pytest.raises(HostError, match="package rpcbind must go and cannot: needed by ethtool"):
        converge(host)


def test_a_half_made_account_is_mended() -> None:
    host = fresh()
    host.accounts["ops"] = UserState("Ops", "/home/ops", "/bin/bash", frozenset({"adm"}), home_exists=True, whole=False)
    assert "half made" in next(c.before for c in converge(host).changes if c.subject == "ops")
    assert host.accounts["ops"].whole


def test_further_groups_of_a_user_are_left() -> None:
    host = fresh()
    host.accounts["ops"] = UserState("Ops", "/home/ops", "/bin/bash", frozenset({"video"}), home_exists=True)
    converge(host)
    assert host.accounts["ops"].groups == {"video", "adm"}


def test_a_sysctl_that_the_kernel_does_not_take_is_an_error() -> None:
    host = fresh()
    del host.sysctls["net.a"]
    with pytest.raises(HostError, match=r"sysctl net\.a = 1"):
        converge(host)


def test_a_second_run_is_refused_with_the_name_of_the_first() -> None:
    host = fresh()
    host.locked_by = "Ansible as ops"
    with pytest.raises(HostError, match="another run is at work on this host since Ansible as ops"):
        converge(host)


def test_owner_and_mode_are_in_the_diff() -> None:
    host = fresh()
    converge(host)
    host.files["/etc/plain"] = FileState("plain\n", "ops", "root", 0o666)
    (change,) = converge(host).changes
    assert change.before.startswith("(ops:root 0666)\n")
    assert change.after.startswith("(root:root 0644)\n")
