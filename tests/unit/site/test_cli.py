"""`pinion site`, as a person uses it: what it prints, what it writes, how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pinion.cli import main
from pinion.site.loader import load

ROOT = Path(__file__).resolve().parents[3]
TWELVE = ROOT / "tests" / "errors" / "twelve-mistakes" / "site.yml"


def run(*words: str, typed: str = "") -> Result:
    """`pinion site WORDS…` in this process, with *typed* on its input."""
    return CliRunner().invoke(main, ["site", *words], input=typed)


# --- check ----------------------------------------------------------------------------------------------------------------


def test_check_of_good_sites() -> None:
    result = run("check", "lab", "dc-rack-12")
    assert result.exit_code == 0
    assert "lab/site.yml: fine (4 networks, 1 switch, 4 Pis, 1 GPU server)" in result.output
    assert "dc-rack-12/site.yml: fine (4 networks, 2 switches, 8 Pis, 1 GPU server)" in result.output


def test_check_prints_place_code_message_and_fix() -> None:
    result = run("check", str(TWELVE))
    assert result.exit_code == 1
    lines = result.output.splitlines()
    expected = (TWELVE.parent / "expected.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split("site.yml", 1)[-1] for line in lines[:24]] == [
        line.split("site.yml", 1)[-1] for line in expected
    ]
    assert lines[-1].endswith("12 problems")


def test_check_as_json() -> None:
    result = run("check", str(TWELVE), "--json")
    assert result.exit_code == 1
    said = json.loads(result.output)
    assert said["ok"] is False
    assert len(said["problems"]) == 12
    places = {"code", "file", "line", "column", "key"}
    assert set(said["problems"][0]) == {*places, "message", "fix", "replacement", "choice"}
    (host_bits,) = (problem for problem in said["problems"] if problem["code"] == "NET-008")
    assert host_bits["replacement"] == {
        "line": host_bits["line"],
        "column": host_bits["column"],
        "end_line": host_bits["line"],
        "end_column": host_bits["column"] + len("10.9.100.1/24"),
        "texts": ["10.9.100.0/24"],
    }
    assert json.loads(run("check", "lab", "--json").output)["ok"] is True
    assert [each["ok"] for each in json.loads(run("check", "lab", str(TWELVE), "--json").output)] == [True, False]


@pytest.mark.parametrize("missing", ["no-such-site", "./no/such/site.yml", "/"])
def test_check_of_what_is_not_there(missing: str) -> None:
    assert run("check", missing).exit_code == 2


def test_check_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "site.yml"
    copy.write_bytes(TWELVE.read_bytes())
    before = copy.stat()
    assert run("check", str(copy)).exit_code == 1
    assert [file.name for file in tmp_path.iterdir()] == ["site.yml"]
    assert copy.stat().st_mtime_ns == before.st_mtime_ns


def test_paths_are_told_as_seen_from_here() -> None:
    """A person clicks on file:line:column in the terminal, so the path must lead there from the working directory."""
    found = subprocess.run(
        [sys.executable, "-c", "from pinion.cli import main; main()", "site", "check", "lab"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("inventories/lab/site.yml: fine")


# --- new ------------------------------------------------------------------------------------------------------------------


def test_new_with_defaults_is_valid(tmp_path: Path) -> None:
    target = tmp_path / "a" / "site.yml"
    result = run("new", "rack-7", "--defaults", "--file", str(target))
    assert result.exit_code == 0, result.output
    assert load(target).site == "rack-7"
    assert run("check", str(target)).exit_code == 0


def test_new_asks_and_takes_the_answers(tmp_path: Path) -> None:
    target = tmp_path / "site.yml"
    result = run("new", "rack-7", "--file", str(target), typed="north\nn\n16\n\nnone\ndgx-h200\n172.16.0.0/16\n")
    assert result.exit_code == 0, result.output
    site = load(target)
    assert site.region == "north"
    assert site.pis["pi"].numbers == "1-16"
    assert site.pis["pi"].hat is None
    assert site.gpu_servers["nv-1"].profile == "dgx-h200"
    assert site.networks["edge"].prefix == "172.16.101.0/24"
    assert all(device.platform != "lab" for device in (*site.switches.values(), *site.pis.values()))


def test_new_asks_again_after_an_answer_that_cannot_be(tmp_path: Path) -> None:
    target = tmp_path / "site.yml"
    result = run("new", "rack-7", "--file", str(target), typed="\n\n9\n8\nraspberry-pi-6\n\n\n\n\n")
    assert result.exit_code == 0, result.output
    assert load(target).pis["pi"].numbers == "1-8"


def test_new_never_replaces_a_file(tmp_path: Path) -> None:
    target = tmp_path / "site.yml"
    target.write_text("mine\n")
    result = run("new", "rack-7", "--defaults", "--file", str(target))
    assert result.exit_code == 2
    assert "exists; nothing was changed" in result.output
    assert target.read_text() == "mine\n"


@pytest.mark.parametrize(
    "words",
    [
        ("Rack_7",),
        ("rack-7", "--region", "a b"),
        ("rack-7", "--pis", "9"),
        ("rack-7", "--board", "raspberry-pi-4b-8gb", "--hat", "ai-hat-plus-2"),
        ("rack-7", "--gpu-server", "dgx-h100"),
        ("rack-7", "--prefix", "10.0.0.1/16"),
        ("rack-7", "--prefix", "10.0.0.0/24"),
        ("rack-7", "--prefix", "127.0.0.0/16"),
        ("rack-7", "--prefix", "10.0.0.0/16\nracks: {}"),
    ],
)
def test_new_refuses_what_makes_no_site_and_writes_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    target = tmp_path / "site.yml"
    result = run("new", *words, "--defaults", "--file", str(target))
    assert result.exit_code == 2
    assert result.output.strip()
    assert list(tmp_path.iterdir()) == []


# --- the rest -------------------------------------------------------------------------------------------------------------


def test_schema_is_the_committed_one() -> None:
    result = run("schema")
    assert result.exit_code == 0
    assert result.output == (ROOT / "docs" / "reference" / "site.schema.json").read_text(encoding="utf-8")


def test_reference_tells_and_mends_stale_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inventories" / "lab").mkdir(parents=True)
    (tmp_path / "inventories" / "lab" / "site.yml").write_text("version: 1\n")
    monkeypatch.setenv("PINION_ROOT", str(tmp_path))
    assert run("reference", "--check").exit_code == 1
    assert not (tmp_path / "docs").exists()
    assert run("reference").exit_code == 0
    assert run("reference", "--check").exit_code == 0
    assert (tmp_path / "docs" / "reference" / "errors.md").read_text(encoding="utf-8").startswith("# Error codes")


@pytest.mark.parametrize("command", ["check", "new", "schema", "reference"])
def test_help_has_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"pinion site {command}" in result.output
    assert "--json" in result.output
