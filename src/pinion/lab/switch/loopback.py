"""The lab's switch program without a lab: a plain process on the loopback address, with a data plane in memory. For tests and trials."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pinion.lab.errors import LabError
from pinion.lab.switch import initial

#: The folder that holds the program's package.
_PACKAGE_PARENT = Path(__file__).parent
_HOST = "127.0.0.1"
#: The front ports of a switch that is not told otherwise.
PORTS = tuple(f"Ethernet{index}" for index in range(1, 17))
_PATIENCE = 20.0


class LoopbackSwitch:
    """A switch process whose state lives in *folder*. Use as a context manager; within it, `stop` or `kill`, and `start` again.

    It may be killed and started again: it keeps its port, host key, configuration and commit timer (until `forget_running`, a reboot).
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "tor-1",
        ports: Sequence[str] = PORTS,
        password: str = "loopback",
        enable: str | None = None,
    ) -> None:
        self.name = name
        self.host = _HOST
        self.port = 0
        self.user = initial.USER
        self.password = password
        self.enable = enable
        self.known_hosts = folder / "known_hosts"
        self._folder = folder
        self._ports = tuple(ports)
        self._process: subprocess.Popen[bytes] | None = None
        self._reserved: socket.socket | None = None
        self._prepare()

    @property
    def log(self) -> Path:
        """What the process said."""
        return self._folder / "switch.log"

    @property
    def startup_config(self) -> Path:
        """The saved configuration."""
        return self._folder / "flash" / "startup-config"

    @property
    def pid(self) -> int:
        """The process; `LabError` when it does not run."""
        if self._process is None:
            raise LabError(f"switch {self.name}: not started")
        return self._process.pid

    def start(self) -> None:
        """Start the process and wait until it listens. `LabError` with what it said when it does not."""
        announced = self._folder / "run" / "port"
        announced.unlink(missing_ok=True)
        self._write_settings()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nos", "--config", str(self._folder / "switch.json")],
                env={**os.environ, "PYTHONPATH": str(_PACKAGE_PARENT), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        give_up = time.monotonic() + _PATIENCE
        while not announced.exists() or not announced.read_text(encoding="ascii").endswith("\n"):
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise LabError(f"switch {self.name}: did not start: {self.log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.02)
        public = (self._folder / "host_key.pub").read_text(encoding="ascii").split()
        self.known_hosts.write_text(f"[{_HOST}]:{self.port} {public[0]} {public[1]}\n", encoding="ascii")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the process with signal *number* and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(_PATIENCE)
            self._process = None

    def stop(self) -> None:
        """End the process in good order; nothing when it does not run."""
        self.kill(signal.SIGTERM)

    def forget_running(self) -> None:
        """What a reboot does to a stopped switch: only the start-up configuration is left."""
        (self._folder / "run" / "running.json").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self._reserved = _reserved()
        self.port = self._reserved.getsockname()[1]
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._reserved is not None:
            self._reserved.close()

    def new_host_key(self) -> None:
        """Replace the host key; takes effect at the next `start`, which also replaces `known_hosts`."""
        key = self._folder / "host_key"
        for path in (key, key.with_suffix(".pub")):
            path.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(key)], check=True)

    def _prepare(self) -> None:
        for folder in (self._folder, self._folder / "flash", self._folder / "run"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        users = self._folder / "users.json"
        users.touch(mode=0o600)
        users.write_text(initial.users(self.password, self.enable), encoding="ascii")
        if not (self._folder / "host_key").exists():
            self.new_host_key()
        if not self.startup_config.exists():
            text = initial.startup_config(self.name, self._ports, "Management1", ())
            self.startup_config.write_text(text, encoding="ascii")

    def _write_settings(self) -> None:
        text = initial.settings(
            ports=self._ports,
            management="Management1",
            flash=str(self._folder / "flash"),
            run=str(self._folder / "run"),
            users=str(self._folder / "users.json"),
            host_key=str(self._folder / "host_key"),
            data_plane="memory",
            everywhere=False,
            port=self.port,
        )
        (self._folder / "switch.json").write_text(text, encoding="ascii")


def _reserved() -> socket.socket:
    """A socket with a port of its own: while it is open nobody else is given that port, and who sets SO_REUSEADDR may listen there."""
    held = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    held.bind((f"::ffff:{_HOST}", 0))
    return held
