"""One Triton and nothing else of the lab: for tests, benchmarks, and trying a model.

It runs from the cached layer in namespaces of its own (mounts, processes, IPC), on a root that nobody can write to, as a user without
any capability, and listens on loopback only.

Invariants:

* Ending this process in any way (`kill -9` too) ends every process of Triton's, and with its mount namespace every mount.
* What a killed run leaves on disk is one folder among the temporary ones, with its log.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pinion.lab.errors import LabError
from pinion.lab.layers import LayerStore
from pinion.lab.ports import free_ports
from pinion.lab.triton.recipes import MODELS, PROGRAM, TRITON, USER

#: Seconds from start to ready before we give up: 2 on an idle machine with two cores.
START_SECONDS = 120.0
_SCRIPT = (files("pinion.lab.triton") / "files" / "standalone.sh").read_text()
_NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child=SIGKILL", "--mount-proc")


@dataclass(frozen=True)
class StandaloneTriton:
    """A running Triton. *url* is plain HTTP on loopback (KServe's protocol, version 2); *log* what it said; *process* ends when it does."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def standalone(
    repository: Path, *, port: int | None = None, layers: Sequence[Path] | None = None
) -> Iterator[StandaloneTriton]:
    """Serve the models of *repository* until the block ends; it begins when all of them are ready.

    *port*: where on loopback, any free one by default. *layers*: lower folders, top first; the lab's cached ones by default, built when
    missing (minutes, the first time). `LabError` when the port is taken or Triton does not come up, with the end of its log.
    """
    url = f"http://127.0.0.1:{free_ports(1)[0] if port is None else _unused(port)}"
    lowers = tuple(layers) if layers is not None else LayerStore().ensure(TRITON)
    with tempfile.TemporaryDirectory(prefix="pinion-triton-") as work:
        log = Path(work, "log")
        process = _start(Path(work), lowers, repository, url, log)
        try:
            _await(process, url, log)
            yield StandaloneTriton(url, log, process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=20)


def _unused(port: int) -> int:
    """*port*, if nobody listens there: whoever does might answer in Triton's place."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise LabError(f"port {port} of loopback cannot be had: {error.strerror}") from error
    return port


def _start(work: Path, lowers: Sequence[Path], repository: Path, url: str, log: Path) -> subprocess.Popen[bytes]:
    (work / "root").mkdir()
    host, _, port = url.removeprefix("http://").partition(":")
    options = [
        f"--model-repository={MODELS}", f"--http-address={host}", f"--http-port={port}", "--allow-grpc=false", "--allow-metrics=false",
        # Our configurations are whole: Triton need not start each model once to ask it what it lacks.
        "--disable-auto-complete-config",
    ]  # fmt: skip
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "ROOT": str(work / "root"), "LOWERS": ":".join(map(str, lowers)),
        "REPOSITORY": str(repository.resolve()), "MODELS": MODELS, "ACCOUNT": USER, "PROGRAM": PROGRAM,
    }  # fmt: skip
    with log.open("wb") as output:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "SIGKILL", *_NAMESPACES, "bash", "-euc", _SCRIPT, "standalone.sh", *options],
            env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until every model is ready."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), opener.open(f"{url}/v2/health/ready", timeout=5) as answer:
            if answer.status == 200:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            reason = "ended" if process.poll() is not None else f"is not ready after {START_SECONDS:.0f} s"
            words = log.read_text(errors="replace").splitlines()[-20:]
            raise LabError("\n".join([f"Triton {reason}; the end of its log:", *words]))
        time.sleep(0.05)
