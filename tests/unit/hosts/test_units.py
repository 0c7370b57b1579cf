"""systemd's units, with a `systemctl` that knows some of them and fails for others, as the real one does."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.drivers.hosts.onhost.command import ENVIRONMENT
from pinion.drivers.hosts.onhost.machine import HostError
from pinion.drivers.hosts.onhost.units import Systemd
from pinion.lab.ports import free_ports

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


#: Like sshd: a signal has it execute itself anew, which takes a while, and only then does it know its new configuration.
DAEMON = """
import os, signal, socket, sys, time
said = open(sys.argv[1]).read().encode()
def again(*_):
    time.sleep(0.7)
    os.execv(sys.executable, [sys.executable, *sys.argv])
signal.signal(signal.SIGHUP, again)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
with socket.create_server(("127.0.0.1", int(sys.argv[2]))) as server:
    while True:
        caller, _ = server.accept()
        with caller:
            caller.sendall(said)
"""
#: Its systemctl: a reload sends the signal and does not wait.
SIGNALLING = """#!/bin/sh
case "$*" in *LoadState*) echo loaded;; *MainPID*) echo @PID@;; try-reload-or-restart*) kill -HUP @PID@;; *) exit 1;; esac
"""


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def daemon(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The configuration of a daemon that runs."""
    configuration = tmp_path / "configuration"
    configuration.write_text("old")
    (tmp_path / "daemon.py").write_text(DAEMON)
    with subprocess.Popen([sys.executable, tmp_path / "daemon.py", configuration, str(free_port)]) as running:
        program = tmp_path / "systemctl"
        program.write_text(SIGNALLING.replace("@PID@", str(running.pid)))
        program.chmod(0o755)
        monkeypatch.setitem(ENVIRONMENT, "PATH", f"{tmp_path}:{ENVIRONMENT['PATH']}")
        deadline = time.monotonic() + 20
        while True:
            try:
                answer(free_port)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield configuration
        running.kill()


def answer(port: int) -> bytes:
    """What the daemon says; `ConnectionRefusedError` when it does not listen."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        return connection.recv(16)


def test_after_a_reload_the_new_configuration_answers_at_once_and_the_old_one_no_more(
    daemon: Path, free_port: int
) -> None:
    assert answer(free_port) == b"old"
    daemon.write_text("new")
    Systemd().reload("slow.service")
    assert answer(free_port) == b"new"
