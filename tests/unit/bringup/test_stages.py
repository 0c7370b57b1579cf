"""A stage is a command: its progress is passed on, its JSON is read, its failure ends the run with its own words and exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from unit.hosts.sites import DC, LAB, plan_of_file

from pinion.bringup.stages import Stage, StageFailedError, run, stages
from pinion.cli.up import up


def stage(program: str, tolerated: frozenset[int] = frozenset({0})) -> Stage:
    return Stage("x", [sys.executable, "-c", program], lambda answer: int(answer.get("changed", 0)), tolerated)


def test_progress_and_changes_arrive() -> None:
    said: list[str] = []
    result = run(
        stage("import sys,json; print('working', file=sys.stderr); print(json.dumps({'changed': 3}))"), said.append
    )
    assert said == ["working"]
    assert (result.changes, result.code) == (3, 0)


def test_a_failure_carries_the_last_words_and_the_exit_code() -> None:
    with pytest.raises(StageFailedError, match="no route to tor-1") as failed:
        run(stage("import sys; print('no route to tor-1', file=sys.stderr); sys.exit(1)"), lambda _: None)
    assert failed.value.code == 1


def test_findings_are_no_failure() -> None:
    result = run(stage("import sys; print('{}'); sys.exit(1)", frozenset({0, 1, 2})), lambda _: None)
    assert result.code == 1


def test_an_answer_that_is_not_json_is_an_error() -> None:
    with pytest.raises(StageFailedError, match="JSON"):
        run(stage("print('hello')"), lambda _: None)


def test_a_stage_that_dies_by_a_signal_could_not_run() -> None:
    with pytest.raises(StageFailedError) as failed:
        run(stage("import os; os.kill(os.getpid(), 9)"), lambda _: None)
    assert failed.value.code == 2


@pytest.mark.parametrize(("awaited", "order"), [(["pi-01"], "pulumi hosts nodes verify"), ([], "pulumi hosts verify")])
def test_nodes_that_join_when_hosts_are_converged_get_an_update_after_it(
    awaited: list[str], order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stage's command only says that it ran, the first one that it awaits *awaited*."""
    real = stages(plan_of_file(DC), "dc-rack-12", None, by="ansible", report=tmp_path / "report.html", endpoints=None)
    answer = f"import json; print(json.dumps({{'awaited': {awaited}}}))"
    commands = [(sys.executable, "-c", f"import sys; print({one.name!r}, file=sys.stderr); {answer}") for one in real]
    faked = [replace(one, command=command) for one, command in zip(real, commands, strict=True)]
    monkeypatch.setattr("pinion.cli.up.stages", lambda *_given, **_named: faked)
    done = CliRunner().invoke(up, [str(DC), "--json"])
    assert done.exit_code == 0, done.output
    assert " ".join(stage["stage"] for stage in json.loads(done.stdout)) == order
    update, *_, again, _ = real
    assert again.command == update.command


def test_the_host_that_pods_fetch_their_model_from_lets_them_before_releases_are_awaited(tmp_path: Path) -> None:
    made = stages(
        plan_of_file(LAB), "lab", None, by="ansible", report=tmp_path / "report.html", endpoints=tmp_path / "endpoints"
    )
    assert [one.name for one in made][:4] == ["lab", "stack", "sources", "pulumi"]
    said = list(made[2].command)
    assert said[said.index("converge") :] == [
        "converge", "lab", "--by", "ansible", "--limit", "mgmt-1", "--concern", "firewall", "--check-changed", "--json",
    ]  # fmt: skip


def test_a_model_from_elsewhere_needs_no_host_to_let_anybody(tmp_path: Path) -> None:
    text = LAB.read_text(encoding="utf-8").replace("http://10.77.100.10:8090/", "https://models.example.org/")
    site = tmp_path / "site.yml"
    site.write_text(text, encoding="utf-8")
    (tmp_path / "charts").symlink_to(LAB.parents[2] / "charts")
    made = stages(plan_of_file(site), "lab", None, by="ansible", report=tmp_path / "report.html", endpoints=None)
    assert [one.name for one in made] == ["lab", "pulumi", "hosts", "nodes", "verify"]
