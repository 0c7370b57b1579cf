"""`pinion decommission` before it reaches anything: what is refused, with which exit code, and what is then said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinion.cli import main

LAB = Path(__file__).parents[3] / "inventories/lab/site.yml"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    found = tmp_path / "site.yml"
    shutil.copy(LAB, found)
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["decommission", *words])


def test_a_node_that_the_site_file_keeps_is_not_touched(site: Path) -> None:
    lines = len(site.read_text().splitlines())
    result = run(str(site), "pi-03", "--yes")
    assert result.exit_code == 1
    assert f"{site}:{lines + 1} the site file does not say that pi-03 leaves; nothing was touched" in result.output
    assert "write there: decommissioned: [pi-03]" in result.output


def test_an_unknown_node_a_bad_number_and_two_ways_at_once(site: Path) -> None:
    result = run(str(site), "pi-09")
    assert result.exit_code == 2
    assert "it has mgmt-1, nv-1, pi-01" in result.output
    assert run(str(site), "pi-03", "--wipe", "--offline").exit_code == 2
    site.write_text(site.read_text() + "decommissioned: [pi-03]\n")
    assert run(str(site), "pi-03", "--serial", "xyz").exit_code == 2


def test_a_mistake_in_the_site_file_is_told_with_its_place(site: Path) -> None:
    site.write_text(site.read_text() + "decommissioned: [pi-09]\n")
    result = run(str(site), "pi-09")
    assert result.exit_code == 1
    assert "DECOM-001" in result.output


def test_without_a_stack_it_says_what_to_run(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write_text(site.read_text() + "decommissioned: [pi-03]\n")
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    result = run(str(site), "pi-03", "--yes")
    assert result.exit_code == 2
    assert "bin/pinion-env" in result.output


def test_help_has_an_example() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "pinion decommission dc-rack-12 pi-03 --wipe" in result.output
