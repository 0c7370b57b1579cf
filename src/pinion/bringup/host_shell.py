"""One command on a host over SSH, and in plain words why it could not be run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pinion.drivers.hosts.inventory import Login, ssh_options
from pinion.drivers.hosts.reaching import explain
from pinion.plan.model import HostPlan

#: Seconds until a login that is not answered has failed.
_CONNECT_SECONDS = 10
#: OpenSSH's exit code when there was no login at all.
_NO_LOGIN = 255

Run = Callable[..., subprocess.CompletedProcess[str]]
Answer = TypeVar("Answer")


class UnreachedError(Exception):
    """There is no way to log in; the text says why."""


class HostRefusedError(Exception):
    """The host was reached and could not do it; the text says what."""


def on(
    host: HostPlan, access: Login, command: str, given: str, seconds: float, run: Run, fine: Sequence[int] = (0,)
) -> str:
    """What *command* says on *host* within *seconds*, with *given* as its standard input.

    An exit code of *fine* other than 0 counts only when something was said. Raises `UnreachedError`, `HostRefusedError`.
    """
    key = ["-i", str(access.key)] if access.key is not None else []
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-o", "ControlPath=none"]
    argv = ["ssh", *options, *ssh_options(access), *key, f"{host.user}@{host.address}", command]
    try:
        done = run(argv, input=given, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise UnreachedError(f"{host.name} ({host.address}) did not answer within {seconds:.0f} s") from None
    except OSError as error:
        raise UnreachedError(f"ssh cannot be run: {error}") from error
    if done.returncode == _NO_LOGIN:
        raise UnreachedError(f"{host.name} ({host.address}): {explain(done.stderr, host, access)}")
    if done.returncode not in fine or (done.returncode != 0 and not done.stdout.strip()):
        words = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise HostRefusedError(f"{host.name}: {words[-1]}")
    return done.stdout


def ask_each(hosts: Sequence[HostPlan], question: Callable[[HostPlan], Answer]) -> dict[str, Answer | str]:
    """What each of *hosts* answers, by name, all asked at the same time; a text says why one could not be asked."""

    def ask(host: HostPlan) -> Answer | str:
        try:
            return question(host)
        except (UnreachedError, HostRefusedError) as error:
            return str(error)

    with ThreadPoolExecutor(max_workers=min(len(hosts), 32) or 1) as pool:
        return dict(zip((host.name for host in hosts), pool.map(ask, hosts), strict=True))
