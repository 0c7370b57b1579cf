"""The program eeprom-settings, against a stand-in of rpi-eeprom-config that keeps what it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinion.services.node_programs import eeprom_settings
from pinion.services.node_programs.eeprom_settings import merged, settings

FACTORY = "[all]\nBOOT_UART=1\nBOOT_ORDER=0xf461\nNET_INSTALL_AT_POWER_ON=1\n"
TOOL = """#!/bin/sh
echo "$@" >>"$STORE.calls"
if [ "$1" = --apply ]; then cp "$2" "$STORE"; else cat "$STORE"; fi
"""


class Eeprom:
    """A stored configuration and the program that reads and writes it."""

    def __init__(self, folder: Path) -> None:
        self.store, self.wanted, self.tool = folder / "store", folder / "wanted", folder / "bin/rpi-eeprom-config"
        self.store.write_text(FACTORY)
        self.tool.parent.mkdir()
        self.tool.write_text(TOOL)
        self.tool.chmod(0o755)

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", eeprom_settings.__file__, str(self.wanted), *options],
            env={"PATH": f"{self.tool.parent}:{os.environ['PATH']}", "STORE": str(self.store)},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def writes(self) -> int:
        calls = Path(f"{self.store}.calls")
        return calls.read_text().count("--apply") if calls.exists() else 0


@pytest.fixture
def eeprom(tmp_path: Path) -> Eeprom:
    return Eeprom(tmp_path)


def test_it_writes_what_differs_once_and_keeps_the_rest(eeprom: Eeprom) -> None:
    eeprom.wanted.write_text("# why\nBOOT_ORDER=0xf416\nPOWER_OFF_ON_HALT=0\n")
    done = eeprom.run()
    assert done.returncode == 0, done.stderr
    assert "BOOT_ORDER: 0xf461 -> 0xf416" in done.stdout
    assert "POWER_OFF_ON_HALT: not set -> 0" in done.stdout
    assert settings(eeprom.store.read_text()) == {
        "BOOT_UART": "1",
        "BOOT_ORDER": "0xf416",
        "NET_INSTALL_AT_POWER_ON": "1",
        "POWER_OFF_ON_HALT": "0",
    }
    assert eeprom.run().stdout == ""
    assert eeprom.writes == 1, "flash wears: it is written only where it differs"


def test_check_says_what_differs_and_writes_nothing(eeprom: Eeprom) -> None:
    eeprom.wanted.write_text("BOOT_ORDER=0xf416\n")
    done = eeprom.run("--check")
    assert done.returncode == 1
    assert "0xf461 -> 0xf416" in done.stdout
    assert eeprom.writes == 0
    eeprom.wanted.write_text("BOOT_ORDER=0xf461\n")
    assert eeprom.run("--check").returncode == 0


def test_a_board_without_the_tool_is_no_success(eeprom: Eeprom) -> None:
    eeprom.wanted.write_text("BOOT_ORDER=0xf416\n")
    eeprom.tool.unlink()
    assert eeprom.run().returncode == 2


def test_a_tool_that_fails_is_told_with_its_reason(eeprom: Eeprom) -> None:
    eeprom.wanted.write_text("BOOT_ORDER=0xf416\n")
    eeprom.tool.write_text("#!/bin/sh\necho 'no EEPROM here' >&2\nexit 3\n")
    done = eeprom.run()
    assert done.returncode == 2
    assert "exit 3: no EEPROM here" in done.stderr


KEYS = st.sampled_from(["A", "B", "C", "D"])
LINES = st.lists(
    st.one_of(
        st.sampled_from(["[all]", "# x", "", "[none]"]),
        st.builds("{}={}".format, KEYS, st.integers(0, 9)),
    ),
    max_size=8,
)


@given(LINES, st.dictionaries(KEYS, st.integers(0, 9).map(str), max_size=4))
def test_merging_gives_what_is_wanted_keeps_the_rest_and_is_stable(lines: list[str], wanted: dict[str, str]) -> None:
    current = "\n".join(lines)
    text = merged(current, wanted)
    assert settings(text) == settings(current) | wanted
    assert settings(merged(text, wanted)) == settings(text)
    assert merged(text, wanted) == text
