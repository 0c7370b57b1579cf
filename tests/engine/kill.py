"""Kill -9 of a run at a chosen point, and what must be true afterwards.

Two kinds of victim: the engine (`pulumi`), whose provider must then end by itself, and the provider, whose engine then ends with an
error. Points are named by the write at which they fall (the n-th POST, PATCH or DELETE that reaches NetBox), before it is done or
after it is done but not yet answered; so a seed gives the same points on any machine.

    for point in seeded_points(seed=1, count=16, writes=26):
        killed_run(stack, server, point)      # True when the point was reached
        stack.recover()
        stack.up()
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

import grpc
import psutil
from doubles.plugin_engine import Client, RecordingEngine
from engine.netbox_server import Server
from engine.stack import STACK, Stack, providers_of
from pulumi.runtime.proto import provider_pb2_grpc

from pinion.drivers.netbox.kinds import CUSTOM_FIELDS, KINDS
from pinion.drivers.netbox.plain import natural_keys, plain_record

Victim: TypeAlias = Literal["engine", "provider"]
Moment: TypeAlias = Literal["before", "after"]
_ORPHAN_SECONDS: Final = 8.0


@dataclass(frozen=True)
class Point:
    """Kill *victim* at the *write*-th write (from 1), *before* it is done or *after*, unanswered."""

    victim: Victim
    write: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.victim} {self.moment} write {self.write}"


def seeded_points(
    seed: int, count: int, writes: int, victims: tuple[Victim, ...] = ("engine", "provider")
) -> list[Point]:
    """*count* distinct points among the first *writes* writes, the same for the same *seed*."""
    moments: tuple[Moment, ...] = ("before", "after")
    every = [Point(victim, write, moment) for victim in victims for write in range(1, writes + 1) for moment in moments]
    return random.Random(seed).sample(every, count)


@contextmanager
def trap(server: Server, point: Point, kill: Callable[[], None]) -> Iterator[threading.Event]:
    """Call *kill* once when *point* comes; the event tells that it did."""
    start, hit = server.writes, threading.Event()

    def spring(_method: str, number: int) -> None:
        if number - start == point.write and not hit.is_set():
            hit.set()
            kill()

    if point.moment == "before":
        server.before = spring
    else:
        server.after = spring
    try:
        yield hit
    finally:
        server.before = server.after = lambda _method, _number: None


def killed_run(stack: Stack, server: Server, point: Point, *arguments: str) -> bool:
    """Run ``pulumi up`` (or *arguments*), kill at *point*, wait until nothing of the run is left. Whether the point was reached."""
    words = arguments or ("up", "--stack", STACK, "--yes", "--skip-preview")
    stack.write_wishes()
    process = subprocess.Popen(
        stack.command(*words),
        cwd=stack.folder,
        env=stack.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    family = Family(process.pid)

    def kill() -> None:
        family.remember()
        if point.victim == "engine":
            os.kill(process.pid, signal.SIGKILL)
        else:
            for provider in providers_of(stack.folder):
                provider.kill()

    with trap(server, point, kill) as hit:
        process.wait(120)
    alone = wait_gone(lambda: providers_of(stack.folder), _ORPHAN_SECONDS)
    family.end()
    assert alone, f"a provider outlived its engine ({point})"
    return hit.is_set()


@dataclass
class Family:
    """The processes that one command started, so that what a kill leaves is ended by its own id, and no other."""

    pid: int
    members: list[psutil.Process] = field(default_factory=list)

    def remember(self) -> None:
        """Take note of who is there now."""
        with contextlib.suppress(psutil.Error):
            self.members = psutil.Process(self.pid).children(recursive=True)

    def end(self) -> None:
        """End those of them that are left."""
        for member in self.members:
            with contextlib.suppress(psutil.Error):
                member.kill()


def wait_gone(look: Callable[[], list[psutil.Process]], seconds: float) -> bool:
    """Whether *look* finds nothing any more, within *seconds*."""
    deadline = time.monotonic() + seconds
    while look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def doubles(server: Server) -> dict[str, int]:
    """Natural keys that NetBox holds more than once: must be empty, always."""
    seen: Counter[str] = Counter()
    for kind in KINDS:
        for record in server.store.find(kind, {}):
            plain = plain_record(kind, record)
            for key in [("name", plain["name"])] if kind is CUSTOM_FIELDS else natural_keys(kind, plain):
                seen[f"{kind.name} {key}"] += 1
    return {key: count for key, count in seen.items() if count > 1}


# --- the provider alone, without an engine ----------------------------------------------------------------------------

#: Has imported all that a provider needs, and forks one for each line that it reads: a second of imports once, and not at each start.
#: The line names a pipe, to which the new process writes its number and then, as the engine expects it of a provider, its port.
_STARTER: Final = """
import os, signal, sys
import pinion.drivers.netbox
import pinion.provider.main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pipe = os.open(line.strip(), os.O_WRONLY)
        os.dup2(pipe, 1)
        os.close(pipe)
        print(os.getpid(), flush=True)
        sys.argv = ["pulumi-resource-pinion"]
        os._exit(pinion.provider.main.main() or 0)
"""


@functools.cache
def _starter() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(process.kill)
    return process


@dataclass
class LoneProvider:
    """A provider process with a client on it: what the engine would have, at a tenth of the time."""

    process: psutil.Process
    client: Client

    def kill(self) -> None:
        """Kill -9."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.process.kill()


@contextmanager
def lone_provider(config: dict[str, str]) -> Iterator[LoneProvider]:
    """Start `pulumi-resource-pinion`, configured with *config* (named as in `pinion.provider.settings`)."""
    starter = _starter()
    assert starter.stdin is not None
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "said"
        os.mkfifo(pipe)
        starter.stdin.write(f"{pipe}\n")
        starter.stdin.flush()
        with pipe.open() as said:
            process = psutil.Process(int(said.readline()))
            try:
                port = int(said.readline())
                with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                    grpc.channel_ready_future(channel).result(20)
                    client = Client(provider_pb2_grpc.ResourceProviderStub(channel), RecordingEngine())
                    client.configure(config)
                    yield LoneProvider(process, client)
            finally:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait(10)
