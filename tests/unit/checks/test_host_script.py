"""The script that probes a host really runs in a POSIX shell and answers each probe in its place, whatever the probes print."""

from __future__ import annotations

import subprocess

from pinion.checks.model import Check, HostProbe, Outcome, Topic, judge
from pinion.checks.probers.hosts import _SEPARATOR, script
from pinion.site.catalog import Evidence


def check(number: int, command: str, expected: str) -> Check:
    return Check(
        id=f"host.x.{number}",
        topic=Topic.HOSTS,
        subject="x",
        claim="answers",
        expected=expected,
        probe=HostProbe(host="x", command=command),
        remedy="none",
        origin="test",
        best=Evidence.EMULATED,
    )


def run(checks: list[Check]) -> list[str]:
    done = subprocess.run(["sh", "-s"], input=script(checks), capture_output=True, text=True, check=True, timeout=60)
    return [answer.strip() for answer in done.stdout.split(f"{_SEPARATOR}\n")[1:]]


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
