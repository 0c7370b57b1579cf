"""systemd's units, with a `systemctl` that knows some of them and fails for others, as the real one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.drivers.hosts.onhost.command import ENVIRONMENT
from pinion.drivers.hosts.onhost.machine import HostError
from pinion.drivers.hosts.onhost.units import Systemd

#: Notes what it was asked to change; like systemctl it fails for units that are not there.
SYSTEMCTL = """#!/bin/sh
for unit; do :; done
if [ "$1" = show ]; then
  case $unit in here.service) echo loaded;; broken.service) echo loaded;; off.service) echo masked;; *) echo not-found;; esac
  exit 0
fi
echo "$1 $unit" >>@LOG@
case $unit in here.service) exit 0;; *) echo "Unit $unit not found." >&2; exit 5;; esac
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What systemctl was asked to change, a line each."""
    log = tmp_path / "log"
    log.touch()
    program = tmp_path / "systemctl"
    program.write_text(SYSTEMCTL.replace("@LOG@", str(log)))
    program.chmod(0o755)
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{tmp_path}:{ENVIRONMENT['PATH']}")
    return log


def test_a_unit_that_is_there_reads_its_files_again(asked: Path) -> None:
    Systemd().reload("here.service")
    Systemd().restart("here.service")
    assert asked.read_text().splitlines() == ["try-reload-or-restart here.service", "try-restart here.service"]


@pytest.mark.parametrize("name", ["gone.service", "off.service"])
def test_a_unit_whose_file_went_with_its_concern_has_nothing_to_read(asked: Path, name: str) -> None:
    Systemd().reload(name)
    Systemd().restart(name)
    assert asked.read_text() == ""


def test_a_unit_that_is_there_and_fails_is_told(asked: Path) -> None:
    with pytest.raises(HostError, match=r"try-restart -- broken\.service: exit 5"):
        Systemd().restart("broken.service")
    assert asked.read_text() == "try-restart broken.service\n"
