"""The helm command: started so that it never outlives us, its secrets on standard input."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinion.provider.plugin import Call, CancelledError, RefusedError

_UNREACHABLE: Final = (
    "cluster unreachable",
    "connection refused",
    "i/o timeout",
    "TLS handshake timeout",
    "EOF",
    "no route to host",
)
#: Seconds that helm has to clean up when the user asks to stop.
_GRACE: Final = 20.0


class HelmFailedError(Exception):
    """helm ended with an error: its message."""


@dataclass(frozen=True)
class Helm:
    """helm with one kubeconfig. *home* is a folder for its caches, away from the user's own plugins and repositories."""

    kubeconfig: Path | None
    context: str | None
    home: Path

    def run(
        self, call: Call, *arguments: str, given: str | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> str:
        """What a command prints. *given* goes to its standard input; *meanwhile* is called every second or so.

        Raises `HelmFailedError`; `CancelledError` when the user asks to stop, after helm has ended.
        """
        with tempfile.TemporaryFile("w+") as problems, tempfile.TemporaryFile("w+") as answer:
            process = subprocess.Popen(
                [*_tied_to_us(), _program(), *arguments, *(["--kube-context", self.context] if self.context else [])],
                stdin=subprocess.PIPE, stdout=answer, stderr=problems, text=True, env=self._environment(),
            )  # fmt: skip
            feeder = threading.Thread(target=_feed, args=(process, given or ""), daemon=True)
            feeder.start()
            cancelled = self._await(process, call, meanwhile)
            feeder.join(1.0)
            if cancelled:
                raise CancelledError(f"helm {arguments[0]} was stopped")
            for stream in (problems, answer):
                stream.seek(0)
            if process.returncode:
                raise HelmFailedError(_message(problems.read()))
            return answer.read()

    def _await(self, process: subprocess.Popen[str], call: Call, meanwhile: Callable[[], object]) -> bool:
        """Wait for the end; whether the user asked to stop."""
        look = time.monotonic() + 1.0
        while True:
            try:
                process.wait(0.1)
                return False
            except subprocess.TimeoutExpired:
                pass
            if call.cancelled.is_set():
                process.terminate()
                try:
                    process.wait(_GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return True
            if time.monotonic() > look:
                meanwhile()
                look = time.monotonic() + 1.0

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        homes = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        return {**kept, **homes, **({"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {})}


def _program() -> str:
    found = shutil.which("helm")
    if found is None:
        raise RefusedError("helm is not on PATH; run this through bin/pinion-env, or install helm 3")
    return found


def _tied_to_us() -> list[str]:
    """The kernel ends helm with us, even when we are killed: an orphan would race with the next run."""
    tool = shutil.which("setpriv")
    return [tool, "--pdeathsig", "KILL"] if tool else []


def _feed(process: subprocess.Popen[str], given: str) -> None:
    try:
        if process.stdin is not None:
            process.stdin.write(given)
            process.stdin.close()
    except BrokenPipeError:
        pass  # helm ended before it read; its message says why


def _message(problems: str) -> str:
    """What helm complains of, without its warnings."""
    lines = [line for line in problems.strip().splitlines() if not line.startswith(("WARNING", "W0", "W1", "I0", "I1"))]
    return "\n".join(lines).removeprefix("Error: ") or "no reason given"


def unreachable(message: str) -> bool:
    """Whether helm's *message* says that the API server did not answer."""
    return any(sign in message for sign in _UNREACHABLE)
