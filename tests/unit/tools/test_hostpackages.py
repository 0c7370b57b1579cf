"""Installing host packages must start no service and leave no trace of the guard that prevents it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pinion.lab.processes import PROGRAMS
from toolchest.hostpackages import MARK, missing, no_service_starts, restore_policy, wanted

LIST = Path(__file__).resolve().parents[3] / "tools" / "debian-packages.txt"


def test_the_list_names_packages_once() -> None:
    names = wanted(LIST)
    assert {"systemd-container", "mmdebstrap", "nftables"} <= set(names)
    assert len(names) == len(set(names))


def test_every_program_that_the_lab_calls_is_installed() -> None:
    assert set(PROGRAMS.values()) <= set(wanted(LIST))


def test_installed_and_unknown_packages_are_told_apart() -> None:
    assert missing(["dpkg", "pinion-no-such-package"]) == ["pinion-no-such-package"]


def test_services_are_refused_while_it_lasts(tmp_path: Path) -> None:
    policy, saved = tmp_path / "policy-rc.d", tmp_path / "saved"
    with no_service_starts(policy, saved):
        assert subprocess.run([str(policy), "ssh", "start"], check=False).returncode == 101
    assert list(tmp_path.iterdir()) == []


def test_a_policy_of_the_machine_comes_back_even_after_an_error(tmp_path: Path) -> None:
    policy, saved = tmp_path / "policy-rc.d", tmp_path / "saved"
    policy.write_text("#!/bin/sh\nexit 0\n")

    def fail_while_guarded() -> None:
        with no_service_starts(policy, saved):
            assert MARK in policy.read_text()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_while_guarded()
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert not saved.exists()


@pytest.mark.parametrize("killed_before_writing", [True, False])
def test_what_a_killed_run_left_is_cleaned_up(tmp_path: Path, killed_before_writing: bool) -> None:
    policy, saved = tmp_path / "policy-rc.d", tmp_path / "saved"
    saved.write_text("the machine's own\n")
    if not killed_before_writing:
        policy.write_text(f"#!/bin/sh\n{MARK}\nexit 101\n")
    restore_policy(policy, saved)
    assert policy.read_text() == "the machine's own\n"
    assert not saved.exists()
