"""A prober never raises: a host that prints what it likes, or a machine without an SSH client, costs its own claims and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pinion.checks.hosts import host_checks
from pinion.checks.model import Finding, Outcome
from pinion.checks.probers.hosts import SshAccess, host_prober
from pinion.plan import plan
from pinion.site.find import site_file
from pinion.site.loader import load


def findings(folder: Path, monkeypatch: pytest.MonkeyPatch, client: str | None) -> Sequence[Finding]:
    """What comes of two claims about one host with the SSH client *client*, a shell script; None: there is none."""
    if client is not None:
        (folder / "ssh").write_text(f"#!/bin/sh\n{client}\n")
        (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    compiled = plan(load(site_file("lab")))
    wanted = [check for check in host_checks(compiled) if check.subject == "pi-01"][:2]
    return list(host_prober(SshAccess(None, None))(compiled, wanted))


def test_an_answer_that_is_no_text_costs_one_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = r"printf '==pinion== 0\n\377\376\n==pinion== x\n==pinion== 1\nfine\n'"
    first, second = findings(tmp_path, monkeypatch, said)
    assert (first.outcome, first.found) == (Outcome.FAILED, "\ufffd\ufffd")
    assert second.found == "fine"


def test_without_an_ssh_client_nothing_is_tried_and_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for finding in findings(tmp_path, monkeypatch, None):
        assert finding.outcome is Outcome.NOT_RUN
        assert "pi-01 (" in finding.found
        assert "'ssh'" in finding.found
