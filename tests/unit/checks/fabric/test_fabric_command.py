"""`pinion fabric`: the table, the proof, the files; exit codes and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from unit.drivers.switch.cumulus_sites import SITES, renamed
from unit.hosts.sites import DC

from pinion.cli import main


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["fabric", *words])


def rows(site: str, name: str) -> list[list[str]]:
    """The cells of the rows of the class *name*."""
    done = run("explain", site)
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.output.splitlines() if line.startswith(f"{name} ")]


def test_a_packet_of_each_class_hop_by_hop() -> None:
    assert [line[1:] for line in rows("dc-rack-12", "rdma")] == [
        ["from", "nv-1", "rdma0", "26", "-", "3", "-", "3", "-", "9000"],
        ["leaf", "tor-1", "Ethernet55/1", "26", "3", "3", "60", "%", "3", "256-512", "kB,", "100", "%", "9214"],
        ["leaf", "tor-2", "Ethernet52/1", "26", "-", "3", "60", "%", "3", "256-512", "kB,", "100", "%", "9214"],
        ["to", "nv-1", "rdma7", "26", "-", "3", "-", "3", "-", "9000"],
    ]
    assert rows("dc-rack-12", "edge_http")[1][1:] == [
        "leaf",
        "tor-1",
        "Ethernet17",
        "0",
        "-",
        "1",
        "20",
        "%",
        "off",
        "-",
        "9214",
    ]
    assert rows("lab", "rdma")[1][1:] == ["leaf", "tor-1", "Ethernet11", "26", "-", "3", "60", "%", "off", "-", "9214"]


def test_the_same_as_json() -> None:
    told = json.loads(run("explain", "dc-rack-12", "--json").output)
    assert {hop["traffic_class"] for hop in told} == {"control", "rdma", "edge_http"}
    assert [hop["pfc"] for hop in told if hop["traffic_class"] == "rdma"] == [[3]] * 4
    assert [hop["pfc"] for hop in told if hop["traffic_class"] == "control"] == [None, [], None]


def test_it_reads_what_the_files_say_and_not_what_the_plan_says(tmp_path: Path) -> None:
    assert run("write", "dc-rack-12", str(tmp_path)).exit_code == 0
    for name in ("tor-1", "tor-2"):
        config = tmp_path / f"switches/{name}.cfg"
        config.write_text(config.read_text().replace("bandwidth percent 60", "bandwidth percent 55"))
    told = json.loads(run("explain", "dc-rack-12", "--from", str(tmp_path), "--json").output)
    assert {hop["share"] for hop in told if hop["traffic_class"] == "rdma"} == {None, 55}


@pytest.mark.parametrize(("site", "files"), [("lab", 2), ("dc-rack-12", 11)])
def test_a_site_whose_files_agree(site: str, files: int, tmp_path: Path) -> None:
    assert run("check", site).output == f"{site}: {files} files agree\n"
    assert run("check", site).exit_code == 0
    written = run("write", site, str(tmp_path)).output.splitlines()
    assert len(written) == files
    assert all(Path(path).is_file() for path in written)
    done = run("check", site, "--from", str(tmp_path), "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == {"ok": True, "files": files, "contradictions": []}


def test_a_contradiction_is_told_with_file_line_and_what_to_change(tmp_path: Path) -> None:
    run("write", "dc-rack-12", str(tmp_path))
    config = tmp_path / "switches/tor-2.cfg"
    text = config.read_text()
    config.write_text(
        text.replace("priority-flow-control priority 3 no-drop", "priority-flow-control priority 4 no-drop")
    )
    line = text.splitlines().index("   priority-flow-control priority 3 no-drop") + 1
    done = run("check", "dc-rack-12", "--from", str(tmp_path))
    assert done.exit_code == 1
    assert (
        f"switches/tor-2.cfg:{line} pinion-lossless pauses priority 4, which no NIC pauses: take it out"
        in done.output.splitlines()
    )
    told = json.loads(run("check", "dc-rack-12", "--from", str(tmp_path), "--json").output)
    assert told["ok"] is False
    assert {one["file"] for one in told["contradictions"]} == {"switches/tor-2.cfg"}


def test_a_switch_with_cumulus_has_yaml(tmp_path: Path) -> None:
    stated = renamed(yaml.safe_load(DC.read_text(encoding="utf-8")))
    SITES["dc-rack-12"][1](stated)
    site = tmp_path / "rack" / "site.yml"
    site.parent.mkdir()
    site.write_text(yaml.safe_dump(stated), encoding="utf-8")
    assert run("check", str(site)).output == "dc-rack-12: 11 files agree\n"
    assert run("write", str(site), str(tmp_path / "files")).exit_code == 0
    config = tmp_path / "files/switches/tor-1.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("bw-percent: 60", "bw-percent: 50", 1))
    done = run("check", str(site), "--from", str(tmp_path / "files"))
    assert done.exit_code == 1
    assert "pinion-lossless: class rdma has 50 % of a port, and 60 % in the site file: make it 60 %" in done.output
    told = run("explain", str(site)).output
    assert [line.split()[1:4] for line in told.splitlines() if line.startswith("rdma ") and "leaf" in line] == [
        ["leaf", "tor-1", "swp55"],
        ["leaf", "tor-2", "swp52"],
    ]
    assert told.endswith("\nEvidence: parsed. Files were read; no switch and no card was asked.\n")


def test_a_folder_without_the_files_cannot_be_read(tmp_path: Path) -> None:
    for command in ("check", "explain"):
        done = run(command, "dc-rack-12", "--from", str(tmp_path))
        assert done.exit_code == 2
        assert "switches/tor-1.cfg: No such file or directory" in done.output
    (tmp_path / "file").touch()
    done = run("write", "dc-rack-12", str(tmp_path / "file"))
    assert done.exit_code == 2


@pytest.mark.parametrize("command", [(), ("explain",), ("check",), ("write",)])
def test_help_has_an_example(command: tuple[str, ...]) -> None:
    assert "pinion fabric" in run(*command, "--help").output.partition("Example")[2]
