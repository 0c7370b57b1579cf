"""What the plan says of the concern node_metrics, and what its program writes."""

from __future__ import annotations

import json
import os
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from unit.hosts.nodes import concern, file
from unit.hosts.sites import DC, LAB, planned

from pinion.drivers.hosts.onhost import notes
from pinion.plan.concerns.node_metrics import EXPORTER, PACKAGE
from pinion.plan.flows import NODE_METRICS as PORT
from pinion.plan.model import Concern, DeviceKind
from pinion.services.node_programs import node_metrics as program

PI = DeviceKind.PI


def lab(**settings: object) -> Concern:
    """The concern of a Pi of the lab."""
    return concern(planned(LAB, concerns={"node_metrics": settings}), PI, "node_metrics")


def test_every_host_has_it_when_the_site_says_so_and_none_otherwise() -> None:
    assert all("node_metrics" in host.concerns for host in planned(DC, concerns={"node_metrics": {}}).hosts)
    assert not any("node_metrics" in host.concerns for host in planned(DC, concerns={}).hosts)


def test_the_exporter_is_fenced_in_and_answers_only_who_fetches() -> None:
    lines = file(lab(), f"/etc/systemd/system/{EXPORTER}.d/10-pinion.conf").content.splitlines()
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "IPAddressDeny=any"} <= set(lines)
    (allowed,) = [line.removeprefix("IPAddressAllow=").split() for line in lines if line.startswith("IPAddressAllow=")]
    prefixes = [ip_network(text) for text in allowed if text != "localhost"]
    assert any(ip_address("10.77.100.10") in prefix for prefix in prefixes)
    assert not any(ip_address("10.77.101.11") in prefix for prefix in prefixes)


def test_spans_of_operators_become_prefixes_that_systemd_knows() -> None:
    plan = planned(DC, concerns={"node_metrics": {}, "firewall": {"operators": ["192.168.100.0/25", "fd00::/64"]}})
    text = file(concern(plan, PI, "node_metrics"), f"/etc/systemd/system/{EXPORTER}.d/10-pinion.conf").content
    assert "IPAddressAllow=localhost 192.168.99.0/24 192.168.100.0/25 fd00::/64" in text


def test_a_change_of_arguments_or_fence_restarts_the_exporter() -> None:
    restarting = [entry.path for entry in lab().files if EXPORTER in entry.restart]
    assert restarting == [f"/etc/default/{PACKAGE}", f"/etc/systemd/system/{EXPORTER}.d/10-pinion.conf"]
    arguments = file(lab(), f"/etc/default/{PACKAGE}").content
    assert f"--web.listen-address=:{PORT}" in arguments


def test_the_interval_is_the_timers() -> None:
    assert (
        "OnUnitActiveSec=90s" in file(lab(interval="1.5min"), "/etc/systemd/system/pinion-node-metrics.timer").content
    )


# --- the program ------------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's state in a folder; its programs say that the clock is kept and that one unit has failed."""
    monkeypatch.setattr(program, "STATE", tmp_path / "state")
    monkeypatch.setattr(program, "REBOOT_REQUIRED", tmp_path / "reboot-required")
    monkeypatch.setattr(program, "NEEDS_BOOT", tmp_path / "needs-boot.json")
    (tmp_path / "state/concerns").mkdir(parents=True)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, said in (("timedatectl", "yes"), ("systemctl", "bad.service loaded failed failed Bad")):
        (bin_folder / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    return tmp_path


def samples(text: str) -> dict[str, float]:
    """Series to value."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_what_the_host_says_of_itself(host: Path) -> None:
    note = host / "state/concerns/base.json"
    note.write_text(json.dumps({}))
    os.utime(note, (1700000000, 1700000000))
    (host / "state/guard/firewall").mkdir(parents=True)
    (host / "state/guard/.half").mkdir()
    (host / "reboot-required").touch()
    assert samples(program.text(now=lambda: 1800000000.5)) == {
        'pinion_concern_changed_seconds{concern="base"}': 1700000000,
        "pinion_unconfirmed_changes": 1,
        "pinion_reboot_required": 1,
        "pinion_clock_synchronised": 1,
        "pinion_failed_units": 1,
        "pinion_collector_errors": 0,
        "pinion_collected_seconds": 1800000000.5,
    }


def test_what_pinion_itself_placed_for_the_next_boot_waits_for_one_too(host: Path) -> None:
    assert samples(program.text())["pinion_reboot_required"] == 0
    (host / "needs-boot.json").write_text("[]")
    assert samples(program.text())["pinion_reboot_required"] == 0
    (host / "needs-boot.json").write_text('["/boot/firmware/config.txt"]')
    assert samples(program.text())["pinion_reboot_required"] == 1


def test_it_reads_where_the_runs_write() -> None:
    assert program.NEEDS_BOOT == notes.BOOT
    assert program.STATE == notes.STATE


def test_what_cannot_be_read_is_left_out_and_counted(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (host / "state/concerns/torn.json").write_text('{"fi')
    (host / "bin/timedatectl").write_text("#!/bin/sh\nexit 1\n")
    found = samples(program.text())
    assert found["pinion_collector_errors"] == 2
    assert "pinion_clock_synchronised" not in found
    assert not any(name.startswith("pinion_concern_changed") for name in found)
    said = capsys.readouterr().err
    assert "pinion_concern_changed_seconds" in said
    assert "pinion_clock_synchronised" in said


def test_a_host_without_notes_has_no_concerns_and_no_error(host: Path) -> None:
    assert not (host / "state/guard").exists()
    found = samples(program.text())
    assert found["pinion_collector_errors"] == 0
    assert found["pinion_unconfirmed_changes"] == 0


def test_the_file_is_whole_readable_and_alone(tmp_path: Path) -> None:
    program.write(tmp_path, "first 1\n")
    program.write(tmp_path, "second 2\n")
    (only,) = tmp_path.iterdir()
    assert only.name == "pinion.prom"
    assert only.read_text() == "second 2\n"
    assert only.stat().st_mode & 0o777 == 0o644


def test_odd_names_stay_inside_their_label() -> None:
    assert program._labels({"concern": 'a"b\\c\nd'}) == '{concern="a\\"b\\\\c\\nd"}'


def test_the_placed_program_runs_alone(tmp_path: Path) -> None:
    """As the timer runs it: without Pinion, by its first line."""
    placed = tmp_path / "node-metrics"
    placed.write_text(file(lab(), "/usr/local/lib/pinion/node-metrics").content)
    placed.chmod(0o755)
    done = subprocess.run([str(placed), str(tmp_path)], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "pinion_collector_errors" in (tmp_path / "pinion.prom").read_text()
