"""`pinion converge --rejoin`: who is let into the cluster again is said by name, and nobody by accident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from unit.hosts.sites import LAB

from pinion.cli import hosts, main
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.joining import REJOIN_VARIABLE
from pinion.drivers.hosts.programs import Program


@pytest.fixture
def site(tmp_path: Path) -> str:
    """The lab, whose Pis join."""
    stated = yaml.safe_load(LAB.read_text())
    stated["concerns"]["edge_cluster"] = {}
    path = tmp_path / "site.yml"
    path.write_text(yaml.safe_dump(stated))
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rejoin", "pi-09"], "'pi-09' is no host of this run that joins the cluster; those are pi-01, pi-02"),
        (["--rejoin", "nv-1"], "'nv-1' is no host of this run"),
        (
            ["--limit", "pi-01", "--rejoin", "pi-02"],
            "'pi-02' is no host of this run that joins the cluster; those are pi-01",
        ),
        (["--limit", "mgmt-1", "--rejoin", "mgmt-1"], "none does"),
    ],
)
def test_a_name_that_this_run_lets_nobody_in_by_is_refused(site: str, words: Sequence[str], said: str) -> None:
    done = CliRunner().invoke(main, ["converge", site, *words], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_the_carriers_are_told(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Mapping[str, str]] = []

    def converge(program: Program, names: Sequence[str], _: object) -> dict[str, HostResult]:
        told.append(program.options)
        return {name: HostResult() for name in names}

    monkeypatch.setattr(Program, "converge", converge)
    monkeypatch.setattr(hosts, "_know_the_cluster", lambda *_: None)
    for words in ([], ["--rejoin", "pi-02", "--rejoin", "pi-01"]):
        done = CliRunner().invoke(main, ["converge", site, "--check", *words])
        assert done.exit_code == 0, done.output
    assert told == [{}, {REJOIN_VARIABLE: "pi-02,pi-01"}]
