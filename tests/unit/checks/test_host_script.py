"""The script that probes a host really runs in a POSIX shell and answers each probe in its place, whatever the probes print."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, HostProbe, Outcome, Topic, judge
from pinion.checks.probers import hosts
from pinion.checks.probers.hosts import SshAccess, answers, host_prober, patience, script
from pinion.plan import Plan
from pinion.plan import plan as compile_plan
from pinion.site.catalog import Evidence
from pinion.site.find import site_file
from pinion.site.loader import load


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile_plan(load(site_file("dc-rack-12")))


def check(number: int, command: str, expected: str, *, sudo: bool = False, seconds: float | None = None) -> Check:
    return Check(
        id=f"host.x.{number}",
        topic=Topic.HOSTS,
        subject="x",
        claim="answers",
        expected=expected,
        probe=HostProbe(host="x", command=command, sudo=sudo, seconds=seconds),
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


# --- a claim that does not answer -------------------------------------------------------------------------------------

#: Reaches every host at once: it is this machine.
SSH = "#!/bin/sh\nfor command; do :; done\nexec $command\n"


def test_a_claim_that_hangs_is_cut_off_and_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    for name, text in (("ssh", SSH), ("sudo", '#!/bin/sh\nshift\nexec "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(hosts, "_GRACE", 0.2)
    host = plan.hosts[0].model_copy(update={"name": "x"})
    checks = [
        check(number, "echo fine", "fine", sudo=number % 2 == 0, seconds=number % 3 or None) for number in range(20)
    ]
    hangs = check(20, "echo fine; sleep 60", "fine", sudo=True, seconds=0.2)
    stubborn = check(21, "trap '' TERM; sleep 60 & wait; sleep 60", "fine", seconds=0.2)
    found = host_prober(SshAccess(None, None))(plan.model_copy(update={"hosts": (host,)}), [*checks, hangs, stubborn])
    outcomes = {finding.check.id: finding.outcome for finding in found}
    assert [outcomes[entry.id] for entry in checks] == [Outcome.PROVED] * 20
    late = {finding.check.id: (finding.outcome, finding.found) for finding in found}
    assert late[hangs.id] == late[stubborn.id] == (Outcome.NOT_RUN, "it was cut off after 0.2 s")


def test_a_host_has_the_time_that_its_slowest_claims_take() -> None:
    quick = [check(number, "true", "") for number in range(100)]
    assert patience(quick) == 0
    assert patience([*quick, check(100, "true", "", seconds=30)]) == 32
    slow = [check(number, "true", "", seconds=60) for number in range(16)]
    assert patience([*slow, check(16, "true", "", seconds=150)]) == 152 + 62 + 62


def test_what_concerns_claim_is_cut_off_and_what_their_parts_say_is_not(plan: Plan) -> None:
    probes = {check.id: check.probe for check in host_checks(plan) if isinstance(check.probe, HostProbe)}
    limited = {name for name, probe in probes.items() if probe.seconds}
    assert limited == {name for name in probes if ".claim." in name}
    assert probes["host.pi-01.edge_runtime.claim.answers"].seconds == 150, "it waits for 90 s itself"
