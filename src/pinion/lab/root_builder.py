"""A script that builds a root file system, in namespaces of its own: of mounts, processes, IPC and name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

_NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=KILL", "--mount-proc")
_LAST_LINES = 15


@contextmanager
def root_builder(
    package: str, script: str, environment: Mapping[str, str], log: Path, held: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run *script*, a file of *package*, with *environment* and nothing else; what it prints goes to *log*.

    It inherits the lock *held*, so nobody else builds while any of it runs, and is killed when the thread that began it ends, or the
    `with` block does.
    """
    with as_file(files(package) / script) as path, log.open("wb") as output:
        builder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *_NAMESPACES, "bash", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            pass_fds=(held,),
            start_new_session=True,
        )
        try:
            yield builder
        finally:
            # does nothing to one that has ended
            builder.kill()
            builder.wait()


def failure(status: int, log: Path) -> str:
    """What to tell of a build that ended with *status*: its last lines."""
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
    return f"build failed (exit {status}); the end of {log}:\n{tail}"
