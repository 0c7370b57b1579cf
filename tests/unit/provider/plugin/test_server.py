"""The provider as a program: its port line, its silence on stdout, and that it never outlives its engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from pinion.lab.ports import free_ports

PROGRAM = [sys.executable, "-c", "from pinion.provider.main import main; raise SystemExit(main())"]
NOISY = """
from pinion.provider.main import PinionPlugin
from pinion.provider.plugin import serve

class Noisy(PinionPlugin):
    def schema(self):
        print("noise", flush=True)
        return {}

raise SystemExit(serve(Noisy()))
"""


@pytest.fixture
def engine() -> Iterator[grpc.Server]:
    """Something that listens where the engine would."""
    server = grpc.server(ThreadPoolExecutor(1))
    yield server
    server.stop(grace=None)


def _start(command: list[str], *arguments: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _answers(port: int) -> str:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        version: str = stub.GetPluginInfo(empty_pb2.Empty(), timeout=10, wait_for_ready=True).version
    return version


def _gone(process: psutil.Process | subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        return False
    return True


def test_it_prints_its_port_serves_and_ends_on_sigterm(engine: grpc.Server) -> None:
    engine_port = engine.add_insecure_port("127.0.0.1:0")
    engine.start()
    process, port = _start(PROGRAM, "-logtostderr", "-v=3", f"127.0.0.1:{engine_port}")
    assert _answers(port).count(".") == 2
    process.send_signal(signal.SIGTERM)
    assert _gone(process, 10)
    assert process.returncode == 0


def test_stdout_holds_the_port_alone() -> None:
    """A library that prints must not end up in the engine's hands."""
    process, port = _start([sys.executable, "-c", NOISY])
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        assert stub.GetSchema(provider_pb2.GetSchemaRequest(), timeout=10, wait_for_ready=True).schema == "{}"
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert out == ""
    assert "noise" in err


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """An orphan that goes on writing would race with the next run."""
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({PROGRAM!r}, stdout=subprocess.PIPE)\n"
        "port = child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert child.is_running()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert _gone(child, 5)


def test_it_ends_when_nothing_listens_at_the_engines_address() -> None:
    process, _ = _start(PROGRAM, f"127.0.0.1:{free_ports(1)[0]}")
    assert _gone(process, 15)


def test_it_starts_quickly_and_small() -> None:
    """Not a timed test: what must not be loaded for a start is named."""
    code = (
        "import sys\n"
        "import pinion.provider.main\n"
        "heavy = {'pynetbox', 'requests', 'netmiko', 'paramiko', 'jinja2', 'kubernetes', 'pinion.plan', 'pinion.drivers.netbox'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
