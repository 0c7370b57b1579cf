"""`pinion lab` where no lab runs: help with examples, exit codes, JSON, plain errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinion.cli.lab import lab


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINION_STATE", str(tmp_path))
    monkeypatch.delenv("PINION_INSTANCE", raising=False)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(lab, arguments)


@pytest.mark.parametrize("verb", ["up", "down", "status", "exec", "ssh", "logs"])
def test_every_command_has_help_with_an_example(verb: str) -> None:
    shown = call(verb, "--help")
    assert shown.exit_code == 0
    assert f"pinion lab {verb}" in shown.output.partition("Example")[2]


@pytest.mark.parametrize("verb", ["up", "down", "status", "logs"])
def test_every_command_that_answers_speaks_json(verb: str) -> None:
    assert "--json" in call(verb, "--help").output


def test_what_never_was_is_down() -> None:
    shown = call("status", "--instance", "t-none", "--json")
    assert (shown.exit_code, json.loads(shown.output)) == (1, {"instance": "t-none", "pieces": []})
    shown = call("down", "--instance", "t-none", "--json")
    assert shown.exit_code == 0
    assert json.loads(shown.output)["machines"] == []


def test_the_instance_has_the_sites_name() -> None:
    shown = call("status", "--site", "lab")
    assert shown.exit_code == 1
    assert "lab lab is down" in shown.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("exec", "--instance", "t-none", "--", "true"), "bring it up: pinion lab up"),
        (("ssh", "--instance", "t-none", "pi-01"), "no such machine"),
        (("logs", "--instance", "t-none", "pi-01"), "no such machine"),
        (("status", "--instance", "Not_Good"), "choose another"),
        (("up", "--parts", "coffee"), "the parts are switch, netbox, cluster"),
        (("status", "--site", "no-such-site"), "known sites"),
    ],
)
def test_what_cannot_run_says_why_and_exits_with_2(arguments: tuple[str, ...], said: str) -> None:
    shown = call(*arguments)
    assert shown.exit_code == 2
    assert said in shown.output


def test_up_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    shown = call("up", "--parts", "none")
    assert shown.exit_code == 2
    assert "sudo" in shown.output
