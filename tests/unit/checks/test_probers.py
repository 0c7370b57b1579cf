"""A prober never raises: whatever a host prints, and whatever file is not what it should be, costs its own claims and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pinion.checks.claims import checks
from pinion.checks.hosts import host_checks
from pinion.checks.model import Finding, Outcome, Topic
from pinion.checks.probers.cluster import cluster_prober
from pinion.checks.probers.hosts import SshAccess, host_prober
from pinion.checks.probers.records import record_prober
from pinion.drivers.netbox import NetBoxDriver
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


@pytest.mark.parametrize("content", [b"just text", b"[]", b"clusters: 3", b"\xff", None])
def test_what_is_no_kubeconfig_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    compiled = plan(load(site_file("lab")))
    wanted = [check for check in checks(compiled) if check.topic is Topic.CLUSTER]
    for finding in cluster_prober(path)(compiled, wanted):
        assert finding.outcome is Outcome.NOT_RUN
        assert str(path) in finding.found


def test_a_bundle_of_authorities_that_is_not_there_is_named(tmp_path: Path) -> None:
    compiled = plan(load(site_file("lab")))
    driver = NetBoxDriver("https://127.0.0.1:1", "nbt_0.0", ca_file=str(tmp_path / "ca.pem"))
    wanted = [check for check in checks(compiled) if check.topic is Topic.RECORDS][:2]
    for finding in record_prober(driver)(compiled, wanted):
        assert finding.outcome is Outcome.NOT_RUN
        assert str(tmp_path / "ca.pem") in finding.found
