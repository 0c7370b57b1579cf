"""`pinion verify` before it reaches anything."""

from __future__ import annotations

import importlib

import pytest
from click.testing import CliRunner

from pinion.checks.claims import checks
from pinion.checks.model import Finding, SwitchProbe, Topic, judge
from pinion.cli import main
from pinion.plan import Plan

#: The module, which the command of the same name hides.
verify = importlib.import_module("pinion.cli.verify")


def test_a_topic_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    result = CliRunner().invoke(main, ["verify", "lab", "--topic", "nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.output
    assert all(topic.value in result.output for topic in Topic)


def test_what_is_not_ours_on_a_switch_is_listed_and_every_claim_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(plan: Plan, *_: object, **__: object) -> tuple[Finding, ...]:
        switches = [check for check in checks(plan) if isinstance(check.probe, SwitchProbe)]
        left = {"rest": ("VLAN 400 (guest)", "interface Vlan400")}
        return tuple(judge(check, check.expected, 0.0, left.get(check.probe.element, ())) for check in switches)  # type: ignore[union-attr]

    monkeypatch.setattr(verify, "access_of", lambda *_: None)
    monkeypatch.setattr(verify, "run_verification", hold)
    result = CliRunner().invoke(main, ["verify", "lab"])
    assert result.exit_code == 0, result.output
    assert "not ours, left alone on tor-1: VLAN 400 (guest), interface Vlan400\n" in result.output
