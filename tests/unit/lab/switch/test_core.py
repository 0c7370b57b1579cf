"""Sessions, the commit timer, what survives a kill and a reboot, and a data plane that refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from unit.lab.switch.conftest import Rig

from pinion.lab.switch.nos.dataplane import desired
from pinion.lab.switch.nos.shell import Shell
from pinion.lab.switch.nos.storage import ArmedTimer, Saved, Storage


def test_a_session_changes_nothing_until_it_is_committed_and_then_all(rig: Rig) -> None:
    before = rig.switch.running
    shell = rig.shell(
        "configure session a", "vlan 101", "name edge", "interface Ethernet1", "switchport access vlan 101"
    )
    assert rig.switch.running == before
    assert rig.plane.held == desired(before)
    assert shell.execute("show session-config diffs").splitlines()[:2] == [
        "--- system:/running-config",
        "+++ session:/a-session-config",
    ]
    assert "+   switchport access vlan 101" in shell.execute("show session-config diffs")
    assert shell.execute("commit") == ""
    assert shell.prompt == "localhost#"
    assert rig.switch.running.vlans[101].name == "edge"
    assert rig.plane.held == desired(rig.switch.running)


def test_a_session_is_left_and_entered_again(rig: Rig) -> None:
    first = rig.shell("configure session a", "vlan 101", "end")
    assert "+vlan 101" in first.execute("show session-config named a diffs").splitlines()
    second = rig.shell("configure session a", "vlan 102", terminal="vty2")
    second.execute("commit")
    assert set(rig.switch.running.vlans) == {101, 102}


def test_a_commit_replaces_what_was_changed_since_the_session_began(rig: Rig) -> None:
    """As EOS does: merge on commit is off."""
    session = rig.shell("configure session a", "vlan 101")
    rig.shell("configure", "vlan 500", terminal="vty2")
    session.execute("commit")
    assert set(rig.switch.running.vlans) == {101}


def test_abort_forgets_the_session(rig: Rig) -> None:
    shell = rig.shell("configure session a", "vlan 101", "abort")
    assert shell.prompt == "localhost#"
    assert rig.switch.sessions == {}
    assert shell.execute("configure session a commit") == "% Session a not found"
    assert shell.execute("configure session a abort") == "% Session a not found"


def test_rollback_clean_config_starts_from_the_factory(rig: Rig) -> None:
    rig.shell("configure", "vlan 500", "hostname x")
    shell = rig.shell("configure session a", "rollback clean-config", "vlan 101", "commit")
    assert set(rig.switch.running.vlans) == {101}
    assert shell.prompt == "localhost#"


def test_too_many_pending_sessions_are_refused(rig: Rig) -> None:
    for number in range(5):
        rig.shell(f"configure session s{number}", "end")
    assert Shell.execute(rig.shell(), "configure session s5").startswith(
        "% Maximum number of pending sessions has been reached."
    )
    rig.shell("configure session s0 abort", "configure session s5")


def test_one_completed_session_is_remembered(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        rig.shell(f"configure session {name}", "commit")
    assert list(rig.switch.sessions) == ["c"]
    assert rig.shell().execute("configure session c commit") == "% Cannot commit session c (state completed)"


def test_a_login_that_ends_leaves_its_session_without_a_terminal(rig: Rig) -> None:
    shell = rig.shell("configure session a", "vlan 5")
    assert rig.switch.sessions["a"].terminals == {"vty1": "ops"}
    shell.close()
    assert rig.switch.sessions["a"].terminals == {}
    assert rig.switch.sessions["a"].config.vlans


def test_editing_a_session_that_another_login_committed_is_refused(rig: Rig) -> None:
    first = rig.shell("configure session a", "vlan 5")
    rig.shell("configure session a commit", terminal="vty2")
    assert first.execute("vlan 6") == "% This session was committed or aborted elsewhere"
    assert first.prompt == "localhost#"
    assert set(rig.switch.running.vlans) == {5}


# --- the commit timer -------------------------------------------------------------------------------------------------


def _armed(rig: Rig) -> None:
    rig.shell("configure", "vlan 100", "end")
    rig.shell("configure session a", "vlan 101", "commit timer 00:01:00")
    assert set(rig.switch.running.vlans) == {100, 101}


def test_a_timer_that_runs_out_takes_everything_back(rig: Rig) -> None:
    _armed(rig)
    rig.now += 59.9
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100, 101}
    rig.now += 0.2
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100}
    assert rig.plane.held == desired(rig.switch.running)
    assert rig.switch.sessions == {}
    assert rig.switch.timer is None


def test_a_confirmed_change_stays(rig: Rig) -> None:
    _armed(rig)
    rig.shell("configure session a commit", terminal="vty9")
    rig.now += 1000
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100, 101}
    assert rig.switch.timer is None


def test_aborting_goes_back_at_once(rig: Rig) -> None:
    _armed(rig)
    rig.shell("configure session a abort", terminal="vty9")
    assert set(rig.switch.running.vlans) == {100}
    assert rig.switch.timer is None


def test_while_a_timer_runs_no_other_session_commits_and_it_is_not_entered(rig: Rig) -> None:
    _armed(rig)
    other = rig.shell("configure session b", "vlan 7")
    assert other.execute("commit") == "% Cannot commit session b: another session (a) is pending commit timer"
    assert other.execute("configure session a") == "% Cannot enter session a (state pendingCommitTimer)"
    assert set(rig.switch.running.vlans) == {100, 101}


def test_committing_with_a_timer_again_extends_it_and_keeps_what_to_go_back_to(rig: Rig) -> None:
    _armed(rig)
    rig.now += 50
    rig.shell("configure session a commit timer 00:01:00")
    rig.now += 50
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100, 101}
    rig.now += 11
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100}


def test_a_killed_and_restarted_process_keeps_configuration_and_deadline(rig: Rig) -> None:
    _armed(rig)
    rig.now += 30
    rig.restarted()
    assert set(rig.switch.running.vlans) == {100, 101}
    assert rig.switch.sessions["a"].state == "pendingCommitTimer"
    rig.now += 31
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100}
    assert set(rig.restarted().running.vlans) == {100}


def test_a_timer_that_ran_out_while_the_process_was_dead(rig: Rig) -> None:
    _armed(rig)
    rig.now += 300
    rig.restarted()
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100}


def test_a_restarted_process_can_be_confirmed(rig: Rig) -> None:
    _armed(rig)
    rig.restarted()
    rig.shell("configure session a commit")
    rig.now += 300
    rig.switch.tick()
    assert set(rig.restarted().running.vlans) == {100, 101}


def test_a_reboot_starts_from_what_was_saved(rig: Rig) -> None:
    rig.shell("configure", "vlan 100", "end", "write")
    _armed(rig)
    assert set(rig.rebooted().running.vlans) == {100}
    assert rig.switch.timer is None


def test_a_switch_that_was_never_saved_reboots_into_the_factory(rig: Rig) -> None:
    rig.shell("configure", "vlan 100")
    assert rig.rebooted().running == rig.switch.base


# --- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", ["commit", "commit timer 00:01:00"])
def test_a_change_that_the_data_plane_refuses_is_an_error_and_no_change(rig: Rig, commit: str) -> None:
    before = rig.switch.running
    shell = rig.shell("configure session a", "vlan 101")
    rig.plane.failure = "port Ethernet1 is on fire"
    assert shell.execute(commit) == "% Error: data plane: port Ethernet1 is on fire"
    assert rig.switch.running == before
    assert rig.switch.timer is None
    assert "Data plane: port Ethernet1 is on fire" in shell.execute("show version")
    rig.plane.failure = None
    rig.switch.reconcile()
    assert rig.switch.fault is None
    assert shell.execute(commit) == ""
    assert set(rig.switch.running.vlans) == {101}


def test_going_back_is_tried_until_it_works(rig: Rig) -> None:
    _armed(rig)
    rig.now += 61
    rig.plane.failure = "stuck"
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100, 101}
    rig.plane.failure = None
    rig.switch.tick()
    assert set(rig.switch.running.vlans) == {100}


def test_what_cannot_be_written_is_an_error_and_no_change(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rig.switch.running
    shell = rig.shell("configure session a", "vlan 101")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert shell.execute("commit") == "% Error: cannot write running-config: No space left on device"
    assert rig.switch.running == before
    assert rig.plane.held == desired(before)
    assert shell.execute("write memory") == "% Error: cannot write startup-config: No space left on device"
    monkeypatch.undo()
    assert [path.name for path in (rig.folder / "run").iterdir()] == []


def test_every_change_reconciles_only_when_something_changed(rig: Rig) -> None:
    rig.shell("configure", "vlan 100")
    applied = rig.plane.applied
    rig.shell("configure", "vlan 100", "show vlan", "hostname localhost")
    assert rig.plane.applied == applied


def test_files_are_for_their_owner_only_and_never_half_written(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "flash", tmp_path / "run")
    storage.save_startup("text\n")
    storage.save_running(Saved("running\n", ArmedTimer("a", 12.5, "old\n")))
    assert storage.startup() == "text\n"
    assert storage.running() == Saved("running\n", ArmedTimer("a", 12.5, "old\n"))
    for path in (tmp_path / "flash" / "startup-config", tmp_path / "run" / "running.json"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "run" / "running.json").write_text('{"boot": "another", "running": "x"}')
    assert storage.running() is None, "what ran before a reboot is gone"
    (tmp_path / "run" / "running.json").write_text("{")
    assert storage.running() is None
