"""The program power-thermal, against a board's sysfs and vcgencmd of the right shape."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.services.node_programs import power_thermal
from pinion.services.node_programs.power_thermal import FLAGS, SLOWER, Reading, Settings, decide

SETTINGS = Settings(75, 5, 10, 30, Path("/m"), Path("/s"))
VCGENCMD = """#!/bin/sh
case "$*" in
get_throttled) echo "throttled=$(cat "$BOARD/flags")" ;;
"pmic_read_adc EXT5V_V") echo "     EXT5V_V volt(24)=5.09738000V" ;;
*) echo 'error=1 error_msg="Command not registered"' ;;
esac
"""


class Board:
    """A Raspberry Pi 5 as its kernel and firmware show it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sys, self.config = folder, folder / "sys", folder / "config.json"
        self.metrics, self.state = folder / "textfiles/power.prom", folder / "run/power.json"
        zones = {"thermal_zone0": ("other-thermal", "20000"), "thermal_zone1": ("cpu-thermal", "51250")}
        for zone, (kind, value) in zones.items():
            entry = self.sys / "class/thermal" / zone
            entry.mkdir(parents=True)
            (entry / "type").write_text(f"{kind}\n")
            (entry / "temp").write_text(f"{value}\n")
        for name, entries in {"rpi_volt": {"in0_lcrit_alarm": "0"}, "pwmfan": {"fan1_input": "2900"}}.items():
            entry = self.sys / "class/hwmon" / f"hwmon-{name}"
            entry.mkdir(parents=True)
            (entry / "name").write_text(f"{name}\n")
            for file, value in entries.items():
                (entry / file).write_text(f"{value}\n")
        (folder / "bin").mkdir()
        self.tool = folder / "bin/vcgencmd"
        self.tool.write_text(VCGENCMD)
        self.tool.chmod(0o755)
        self.flags("0x0")
        self.config.write_text(
            json.dumps(
                {
                    "warm_at": 75,
                    "hysteresis": 5,
                    "interval": 0.2,
                    "good_for": 30,
                    "metrics": str(self.metrics),
                    "state": str(self.state),
                }
            )
        )

    def flags(self, written: str) -> None:
        (self.folder / "flags").write_text(f"{written}\n")

    def temperature(self, celsius: float) -> None:
        (self.sys / "class/thermal/thermal_zone1/temp").write_text(f"{round(celsius * 1000)}\n")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-I", power_thermal.__file__, "--sys", str(self.sys), "--config", str(self.config)]

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.tool.parent}:/usr/bin:/bin", "BOARD": str(self.folder)}

    def run(self, code: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            [*self.command, "--once"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        self.said = done.stdout
        return json.loads(self.state.read_text()) if self.state.exists() else {}

    def values(self) -> dict[str, float]:
        """The metrics by name and labels, after the text format's own rules."""
        found, typed = {}, set()
        for line in self.metrics.read_text().splitlines():
            if line.startswith("#"):
                _, kind, name, *_ = line.split()
                if kind == "TYPE":
                    typed.add(name)
                continue
            series, value = line.rsplit(" ", 1)
            assert series.partition("{")[0] in typed, f"{series} has no TYPE"
            assert series not in found, f"{series} twice"
            found[series.removeprefix("pinion_power_thermal_")] = float(value)
        return found


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_a_cool_node(board: Board) -> None:
    state = board.run()
    assert (state["state"], state["reasons"], state["temperature"]) == ("ok", [], 51.25)
    assert state["expires"] - state["at"] == 30
    assert abs(state["at"] - time.time()) < 60
    assert board.said == "unknown -> ok\n"
    values = board.values()
    assert values["temperature_celsius"] == 51.25, "of the processor, not of the first zone"
    assert values["supply_volts"] == 5.09738
    assert values["fan_rpm"] == 2900
    assert [values[f'state{{state="{name}"}}'] for name in power_thermal.STATES] == [1, 0, 0, 0]
    assert values["last_run_timestamp_seconds"] == pytest.approx(state["at"])


def test_it_gets_warm_and_cools_down_without_flapping(board: Board) -> None:
    states = []
    for celsius in (74.9, 75.0, 74.0, 70.0, 69.9, 74.9):
        board.temperature(celsius)
        states.append(board.run()["state"])
    assert states == ["ok", "warm", "warm", "warm", "ok", "ok"]


def test_the_firmwares_flags_by_name_now_and_since_the_start(board: Board) -> None:
    board.flags("0x50005")
    state = board.run()
    assert (state["state"], state["reasons"]) == ("throttled", ["under_voltage", "throttled"])
    values = board.values()
    assert values['flag{flag="under_voltage",when="now"}'] == 1
    assert values['flag{flag="under_voltage",when="since_start"}'] == 1
    assert values['flag{flag="frequency_capped",when="now"}'] == 0
    assert values['flag{flag="throttled",when="now"}'] == 1
    board.flags("0x50000")
    state = board.run()
    assert state["state"] == "ok", "what was once is no reason now"
    assert board.values()['flag{flag="throttled",when="since_start"}'] == 1


def test_a_state_keeps_its_beginning_and_says_when_it_changes(board: Board) -> None:
    first = board.run()
    second = board.run()
    assert second["since"] == first["since"]
    assert second["at"] > first["at"]
    assert board.said == ""
    board.flags("0x2")
    assert board.run()["since"] > first["since"]
    assert board.said == "ok -> throttled: frequency_capped\n"


def test_without_vcgencmd_the_kernel_is_asked(board: Board) -> None:
    board.tool.unlink()
    firmware = board.sys / "devices/platform/soc/soc:firmware"
    firmware.mkdir(parents=True)
    (firmware / "get_throttled").write_text("80008\n")
    state = board.run()
    assert (state["state"], state["reasons"]) == ("warm", ["soft_temperature_limit"])
    assert "supply_volts" not in board.values()


def test_without_firmware_the_voltage_alarm_still_counts(board: Board) -> None:
    board.tool.unlink()
    (board.sys / "class/hwmon/hwmon-rpi_volt/in0_lcrit_alarm").write_text("1\n")
    assert board.run()["reasons"] == ["under_voltage"]


def test_a_firmware_that_refuses_is_not_taken_for_an_answer(board: Board) -> None:
    board.tool.write_text("#!/bin/sh\necho 'error=1 error_msg=\"Command not registered\"'\n")
    (board.sys / "class/hwmon/hwmon-rpi_volt/name").unlink()
    assert board.run()["state"] == "ok"
    assert not any(series.startswith("flag") for series in board.values())


def test_a_machine_that_tells_nothing_is_unknown_and_not_ok(board: Board, tmp_path: Path) -> None:
    board.tool.unlink()
    board.sys = tmp_path / "nothing"
    assert board.run(code=1)["state"] == "unknown"
    assert board.values()['state{state="unknown"}'] == 1


@pytest.mark.parametrize("left", ["", "{", "[]", '{"state": "hot", "since": 1}', '{"state": "ok"}'])
def test_a_state_file_that_is_none_is_begun_anew(board: Board, left: str) -> None:
    board.state.parent.mkdir()
    board.state.write_text(left)
    assert board.run()["state"] == "ok"


def test_a_folder_that_cannot_be_written_leaves_the_old_files(board: Board) -> None:
    old = board.run()
    board.state.unlink()
    board.state.mkdir()
    # also without --once: who cannot write ends, and the service manager tells
    done = subprocess.run(
        board.command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert old["state"] == "ok"
    assert list(board.state.parent.iterdir()) == [board.state], "no half-written file is left"


def test_settings_that_are_none_are_no_success(board: Board) -> None:
    board.config.write_text("{}")
    board.run(code=2)


def test_it_looks_again_and_again_and_tells_when_there_is_a_first_state(board: Board, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        process = subprocess.Popen(board.command, env=board.environment | {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        try:
            assert manager.recv(100) == b"READY=1"
            first = json.loads(board.state.read_text())
            board.flags("0x1")
            deadline = time.monotonic() + 60
            while (now := json.loads(board.state.read_text()))["state"] == "ok":
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.terminate()
            process.wait(timeout=60)
    assert (first["state"], now["state"]) == ("ok", "throttled")
    assert now["at"] > first["at"]


READINGS = st.builds(
    Reading,
    temperature=st.none() | st.floats(-20, 110, allow_nan=False),
    flags=st.none() | st.integers(0, 0xFFFFF),
    supply_volts=st.none(),
    fan_rpm=st.none(),
)


@given(READINGS, st.sampled_from(power_thermal.STATES))
def test_the_state_is_never_better_than_what_the_board_says(reading: Reading, before: str) -> None:
    state, reasons = decide(reading, before, SETTINGS)
    assert (state == "ok") is not bool(reasons)
    assert (state == "throttled") is any(name in reading.now() for name in SLOWER)
    if reading.temperature is not None and reading.temperature >= SETTINGS.warm_at:
        assert state in {"warm", "throttled"}
    if state == "unknown":
        assert reading.temperature is None
        assert reading.flags is None
    if state == "ok" and before in {"warm", "throttled"} and reading.temperature is not None:
        assert reading.temperature < SETTINGS.warm_at - SETTINGS.hysteresis
    assert set(reading.now()) <= set(FLAGS.values())
