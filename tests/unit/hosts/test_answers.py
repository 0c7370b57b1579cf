"""What hosts answered, collected; how the command ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from unit.hosts.sites import LAB, REPOSITORY, planned

from pinion.bringup.rollout import Rollout, Stop, Wave
from pinion.cli.hosts import _make_room, chosen, converge, exit_code
from pinion.drivers.hosts.answers import Answer, HostResult, Listener, append, collect
from pinion.drivers.hosts.programs import ansible, pyinfra

CHANGE = {"concern": "c", "kind": "file", "subject": "/x", "before": "old secret", "after": "new secret"}


def test_answers_of_one_host_come_together_and_silence_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    append(path, Answer("a", changes=(CHANGE,)))
    append(path, Answer("a"))
    append(path, Answer("b", error="apt-get: disk full"))
    append(path, Answer("b", error="apt-get: disk full"))
    found = collect(path, ("a", "b", "c"))
    assert found["a"].changes == [CHANGE]
    assert found["a"].errors == []
    assert found["b"].errors == ["apt-get: disk full"]
    assert found["c"].errors == ["it could not be reached, or the run ended before it answered"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_nobody_answered(tmp_path: Path) -> None:
    assert all(result.errors for result in collect(tmp_path / "none", ("a", "b")).values())


def test_contents_of_files_are_not_in_the_json() -> None:
    assert "secret" not in json.dumps(HostResult(changes=[CHANGE]).as_json())


def test_hosts_that_have_answered_are_counted_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    listener = Listener(path)
    assert listener.heard() == set()
    append(path, Answer("a", changes=(CHANGE,)))
    append(path, Answer("a"))
    with path.open("a") as file:
        file.write('{"host": "b", "chan')
    assert listener.heard() == {"a"}
    with path.open("a") as file:
        file.write('ges": []}\n{"host": "c"}\n')
    assert listener.heard() == {"a", "b", "c"} == listener.heard()


def test_a_report_is_an_answer() -> None:
    said = {"changes": [CHANGE], "reboot": ["/x"], "notes": ["n"], "confirm": [], "waited": 0.0}
    assert Answer.from_report("a", said) == Answer("a", changes=(CHANGE,), reboot=("/x",), notes=("n",))
    assert Answer.from_report("a", {"error": "no"}) == Answer("a", error="no")


def test_exit_codes() -> None:
    fine, differs = Wave(("a",), {"a": HostResult()}), Wave(("a",), {"a": HostResult(changes=[CHANGE])})
    assert exit_code(Rollout([fine]), check=False) == 0
    assert exit_code(Rollout([differs]), check=False) == 0
    assert exit_code(Rollout([differs]), check=True) == 1
    assert exit_code(Rollout([fine, Wave(("b",), stops=[Stop("b", "x")])]), check=False) == 1


def test_a_limit_is_a_name_or_a_group() -> None:
    plan = planned(LAB)
    assert chosen(plan, ()) == tuple(host.name for host in plan.hosts)
    assert chosen(plan, ("pi-0[12]", "nv-1")) == ("nv-1", "pi-01", "pi-02")
    assert chosen(plan, ("pis",)) == ("pi-01", "pi-02", "pi-03", "pi-04")
    for patterns in (("nobody",), ("pi-01", "pi-9*")):
        with pytest.raises(click.BadParameter, match=re.escape(f"matches '{patterns[-1]}'")) as refused:
            chosen(plan, patterns)
        assert "gpu_servers, management_hosts, pi, pis" in str(refused.value)


def test_an_unknown_concern_is_refused_with_the_names_of_all() -> None:
    done = CliRunner().invoke(converge, [str(LAB), "--concern", "os_tunning"])
    assert done.exit_code == 2
    assert "there is no concern 'os_tunning'; there are access, os_tuning" in " ".join(
        done.output.replace("│", "").split()
    )


def test_one_concern_alone_by_either() -> None:
    assert "--tags os_tuning,base" in " ".join(ansible(LAB, ["a"], check=False, concerns=["os_tuning", "base"]))
    assert "deploys/os_tuning.py deploys/base.py" in " ".join(
        pyinfra(LAB, ["a"], check=False, concerns=["os_tuning", "base"])
    )


def test_a_check_changes_nothing_by_either() -> None:
    assert "--check" in ansible(LAB, ["a", "b"], check=True)
    assert "--check" not in ansible(LAB, ["a", "b"], check=False)
    assert "--dry" in pyinfra(LAB, ["a", "b"], check=True)
    assert "-y" not in pyinfra(LAB, ["a", "b"], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace without a way out needs root")
@pytest.mark.parametrize("by", ["ansible", "pyinfra"])
def test_hosts_that_cannot_be_reached_have_failed(by: str) -> None:
    done = subprocess.run(
        [
            "unshare",
            "--net",
            sys.executable,
            "-m",
            "pinion",
            "converge",
            str(LAB),
            "--by",
            by,
            *("--limit", "pi-0[12]", "--concern", "os_tuning", "--json", "--at-once"),
        ],
        cwd=REPOSITORY,
        env=os.environ | {"PINION_ROOT": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["failed"] == ["pi-01", "pi-02"]
    assert answer["changed"] == 0
    for host in answer["hosts"].values():
        assert host["errors"][0].startswith("it could not be reached: ")
        assert "Network is unreachable" in host["errors"][0]


def test_logs_of_the_last_runs_are_kept(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"20261121-{number:06}-aaaa.log").write_text("")
    _make_room(tmp_path)
    assert min(path.name for path in tmp_path.iterdir()) == "20261121-000010-aaaa.log"
    assert len(list(tmp_path.iterdir())) == 50


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_run_that_stopped_offers_the_way_back_in_either_form(
    form: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, failed = HostResult(changes=[CHANGE]), HostResult(errors=["apt-get: disk full"])
    wave = Wave(("pi-01", "pi-02"), {"pi-01": changed, "pi-02": failed}, [Stop("pi-02", "apt-get: disk full")])
    monkeypatch.setattr("pinion.cli.hosts._roll", lambda *_given, **_named: Rollout([wave], ("pi-03",)))
    monkeypatch.setenv("PINION_ROOT", str(tmp_path))
    done = CliRunner().invoke(converge, [str(LAB), *form])
    assert done.exit_code == 1
    run = next((tmp_path / ".pinion/converge").glob("*.log")).stem
    said = done.stderr if form else done.stdout
    assert f"the way back: pinion converge lab --undo {run}" in said
    assert "1 hosts of later waves are not touched" in said
    assert not form or json.loads(done.stdout)["run"] == run
