"""The script that probes a host really runs in a POSIX shell and answers each probe in its place, whatever the probes print."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from pinion.checks.model import Check, HostProbe, Outcome, Topic, judge
from pinion.checks.probers.hosts import answers, script
from pinion.site.catalog import Evidence


def check(number: int, command: str, expected: str, *, sudo: bool = False) -> Check:
    return Check(
        id=f"host.x.{number}",
        topic=Topic.HOSTS,
        subject="x",
        claim="answers",
        expected=expected,
        probe=HostProbe(host="x", command=command, sudo=sudo),
        remedy="none",
        origin="test",
        best=Evidence.EMULATED,
    )


def run(
    checks: list[Check], *, sudo: str = '#!/bin/sh\n[ $1 = -n ] && shift && AS=root exec "$@"\n'
) -> list[str | None]:
    """The answers of *checks* by a shell whose `sudo` is the program *sudo*."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "sudo")
        program.write_text(sudo)
        program.chmod(0o755)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "AS": "login"}
        argv = ["sh", "-s"]
        done = subprocess.run(
            argv, input=script(checks), capture_output=True, text=True, check=True, timeout=60, env=environment
        )
    found = answers(done.stdout)
    return [found.get(number) for number in range(len(checks))]


def test_answers_come_back_in_order_even_when_later_ones_finish_first() -> None:
    commands = [f"sleep 0.{9 - index}; echo {index}" for index in range(10)] + [
        "printf 'no newline'",
        "false",
        "echo a; echo b",
    ]
    checks = [check(index, command, "") for index, command in enumerate(commands)]
    assert run(checks) == [*(str(index) for index in range(10)), "no newline", "", "a\nb"]


def test_a_failing_or_reading_probe_disturbs_no_other() -> None:
    checks = [check(0, "exit 3", ""), check(1, "cat", ""), check(2, "echo err >&2; echo fine", "fine")]
    assert run(checks) == ["", "", "fine"]


def test_a_finding_is_proved_only_by_the_expected_value() -> None:
    claim = check(0, "echo 5000", "5000")
    assert judge(claim, "5000", 0.0).outcome is Outcome.PROVED
    assert judge(claim, "1000", 0.0).outcome is Outcome.FAILED


def test_only_probes_that_need_it_run_as_root_and_each_answers_in_its_place() -> None:
    checks = [check(number, f"echo {number} $AS", "", sudo=number % 3 == 0) for number in range(20)]
    assert run(checks) == [f"{number} {'login' if number % 3 else 'root'}" for number in range(20)]


def test_without_sudo_the_other_probes_still_answer() -> None:
    checks = [check(0, "echo a", ""), check(1, "echo b", "", sudo=True)]
    assert run(checks, sudo="#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n") == ["a", None]
