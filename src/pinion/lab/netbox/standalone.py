"""One NetBox and nothing else of the lab: for tests and benchmarks.

It runs PostgreSQL, Redis and gunicorn of the cached layers in namespaces of its own (mounts, processes, network), and serves on a
socket of this machine's loopback that is opened here and inherited: NetBox itself has no network at all.

Invariants:

* Ending this process in any way (`kill -9` too) ends every process of the NetBox, and with its mount namespace every mount.
* What a killed run leaves on disk is one folder under `$PINION_STATE/standalone`, removed at the next start.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from pinion.lab.netbox.instance import DATA, NetBoxSecrets, account, resource, unpack_database, write_configuration

#: Seconds from start to the first answer before we give up: NetBox's import alone is 7 s of CPU.
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class StandaloneNetBox:
    """A running NetBox. *url* is plain HTTP on loopback; *token* the least-privileged one; *log* what its processes said."""

    url: str
    token: str
    admin_password: str
    log: Path

    def __repr__(self) -> str:
        return f"StandaloneNetBox(url={self.url!r})"


class StandaloneError(RuntimeError):
    """NetBox did not come up: says what it waited for and shows the end of its log."""


@contextmanager
def standalone(
    layers: Sequence[Path] | None = None,
    *,
    settings: Mapping[str, JsonValue] | None = None,
    plugins: Sequence[Path] = (),
) -> Iterator[StandaloneNetBox]:
    """Run a NetBox with an empty database until the block ends.

    *layers*: lower directories, top first, the topmost with the database archive; None: the lab's cached layers, built when missing
    (minutes, the first time). *settings*: further settings of NetBox, by name. *plugins*: folders of Python packages that are plugins of
    NetBox; they are installed, and their tables made, before it starts.
    """
    lowers = tuple(layers) if layers is not None else _cached_layers()
    home = _home()
    work = Path(tempfile.mkdtemp(prefix="netbox-", dir=home))
    lock = (work / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    kept = NetBoxSecrets.generate()
    try:
        _prepare(work, lowers, kept)
        _extend(work, settings or {}, plugins)
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            process = _start(work, lowers, listener)
            try:
                _await_answer(process, url, kept.token, work / "log")
                yield StandaloneNetBox(url, kept.token, kept.admin_password, work / "log")
            finally:
                _stop(process)
    finally:
        lock.close()
        shutil.rmtree(work, ignore_errors=True)


def _cached_layers() -> tuple[Path, ...]:
    from pinion.lab.layers import LayerStore  # the lab's framework is only needed for its cache
    from pinion.lab.netbox.recipes import NETBOX_DATABASE

    return LayerStore().ensure(NETBOX_DATABASE)


def _home() -> Path:
    """The folder of all stand-alone instances, cleared of what killed runs left (their lock is free)."""
    home = Path(os.environ.get("PINION_STATE", "/var/lib/pinion")) / "standalone"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in home.glob("netbox-*"):
        try:
            with (left / "lock").open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            if time.time() - left.stat().st_mtime > 60:  # younger: its owner is about to make the lock
                shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
    return home


@dataclass(frozen=True, slots=True)
class _Folder:
    """Writes into a folder that nothing runs in yet."""

    root: Path

    def write(self, path: str, content: str | bytes, mode: int = 0o644, owner: int = 0, group: int = 0) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        os.chown(target, owner, group)


def _prepare(work: Path, lowers: Sequence[Path], kept: NetBoxSecrets) -> None:
    for name in ("upper", "overlay", "root", "data"):
        (work / name).mkdir()
    work.chmod(0o755)
    passwd = next(layer for layer in lowers if (layer / "etc/passwd").exists())
    owner = account(passwd, "postgres")
    archive = (
        next(layer for layer in lowers if (layer / "opt/netbox/database.tar").exists()) / "opt/netbox/database.tar"
    )
    unpack_database(archive, work / "data")
    os.chown(work / "data", *owner)
    writer = _Folder(work / "upper")
    write_configuration(writer, passwd, kept)
    writer.write("/opt/netbox/standalone.sh", resource("standalone.sh"), 0o755)


def _extend(work: Path, settings: Mapping[str, JsonValue], plugins: Sequence[Path]) -> None:
    for plugin in plugins:
        shutil.copytree(
            plugin, work / "upper/opt/netbox/plugins" / plugin.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    document = {**settings, "PLUGINS": [plugin.name for plugin in plugins]}
    _Folder(work / "upper").write("/etc/netbox/settings.json", json.dumps(document))


def _start(work: Path, lowers: Sequence[Path], listener: socket.socket) -> subprocess.Popen[bytes]:
    script = resource("standalone-mounts.sh")
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
        "WORK": str(work), "LOWERS": ":".join(map(str, lowers)), "DATA": DATA, "NETBOX_BIND": f"fd://{listener.fileno()}",
    }  # fmt: skip
    with (work / "log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "SIGKILL", "unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child=SIGKILL",
             "--mount-proc", "bash", "-euc", script],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listener.fileno()], start_new_session=True,
        )  # fmt: skip


def _await_answer(process: subprocess.Popen[bytes], url: str, token: str, log: Path) -> None:
    request = urllib.request.Request(f"{url}/api/status/", headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise StandaloneError(f"NetBox ended while starting (exit code {process.returncode}):\n{_tail(log)}")
        try:
            with urllib.request.urlopen(request, timeout=max(1.0, deadline - time.monotonic())):
                return
        except urllib.error.HTTPError as error:
            raise StandaloneError(
                f"NetBox answers {error.code} to its own token:\n{error.read()[:500]!r}\n{_tail(log)}"
            ) from error
        except OSError as error:
            if time.monotonic() > deadline:
                raise StandaloneError(
                    f"no answer from NetBox in {START_SECONDS:.0f} s ({error}):\n{_tail(log)}"
                ) from error
            time.sleep(0.1)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process namespace: its database is thrown away, so nothing needs to be asked politely."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
