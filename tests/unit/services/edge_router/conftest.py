"""A router as a real process between a real llama-server and a pool that misbehaves on demand."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from unit.lab.models.engines import few_steps, llama_server

from pinion.lab.ports import free_ports
from pinion.routing import ModelForms, RoutingPolicy
from pinion.routing.document import signed

MODEL, CONTEXT = "assistant", 256
POOL = Path(__file__).with_name("pool_double.py")


@dataclass
class Site:
    """A router at *url*, its engine, its pool, and the folder with its files."""

    url: str
    engine: str
    pool: str
    folder: Path
    key: Ed25519PrivateKey
    pool_process: subprocess.Popen[bytes]
    version: int = 0
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30, trust_env=False))

    def ask(self, prompt: str = "The rack", **more: Any) -> httpx.Response:
        """A completion of a few tokens."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 4, "temperature": 0, **more}
        return self.client.post(f"{self.url}/v1/completions", json=body)

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.url}/health").json()
        return found

    def pool_way(self, way: str) -> None:
        """Have the pool behave so."""
        self.client.post(f"{self.pool}/way/{way}").raise_for_status()

    def pool_counts(self) -> dict[str, int]:
        found: dict[str, int] = self.client.get(f"{self.pool}/count").json()
        return found

    def publish(self, **stated: Any) -> int:
        """Place the next version of the policy; its number, once the router goes by it."""
        self.version += 1
        self.place(signed(self.policy(version=self.version, **stated), self.key))
        self.until(lambda: self.health()["policy"] == self.version)
        return self.version

    def policy(self, **stated: Any) -> RoutingPolicy:
        return RoutingPolicy(site="rack", models=(ModelForms(MODEL, edge=MODEL, pool=MODEL),), **stated)

    def place(self, document: bytes) -> None:
        """Lay *document* where the router looks for a policy."""
        new = self.folder / "policy.new"
        new.write_bytes(document)
        new.replace(self.folder / "policy.json")

    @staticmethod
    def until(holds: Callable[[], bool], seconds: float = 20) -> float:
        """Wait until *holds*; how long that took, in seconds."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < seconds, "it did not come to that"
            time.sleep(0.02)
        return time.monotonic() - began


@contextmanager
def engine(log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """llama.cpp's server with a model that knows nothing and computes as any: its address, and its process."""
    (port,) = free_ports(1)
    options = f"--alias {MODEL} --threads 1 --parallel 1 --ctx-size {CONTEXT} --metrics --no-ui --offline --host 127.0.0.1 --port {port}"
    command = [llama_server(), "--model", str(few_steps().gguf), *options.split()]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/health", log) as process:
        Site.until(lambda: httpx.get(f"{url}/health", trust_env=False).status_code == 200, 60)
        yield url, process


@pytest.fixture(scope="package")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with engine(tmp_path_factory.mktemp("llama") / "log") as (address, _):
        yield address


@contextmanager
def running(command: list[str], url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server from its first answer on."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for _ in range(300):
            assert process.poll() is None, log.read_text()
            try:
                httpx.get(url, timeout=2, trust_env=False)
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        else:
            pytest.fail(f"no answer in 30 s: {log.read_text()}")
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def site_of(engine: str, folder: Path, *, engine_there: bool = True, queue: int = 32) -> Iterator[Site]:
    """A router before *engine*, with a pool of its own; so many requests may wait in its *queue*."""
    key = Ed25519PrivateKey.generate()
    router_port, pool_port = free_ports(2)
    url, pool = f"http://127.0.0.1:{router_port}", f"http://127.0.0.1:{pool_port}"
    speed = {"prefill": 400.0, "decode": 100.0, "context": CONTEXT}
    settings = {
        "host": "127.0.0.1", "port": router_port,
        "engine": {"url": engine, "model": MODEL, "slots": 1, "speed": speed},
        "pool": {"url": pool, "models": {MODEL: CONTEXT}},
        "queue": queue,
        "planned": {"site": "rack", "models": [{"name": MODEL}]},
        "policy": str(folder / "policy.json"), "kept": str(folder / "kept.json"),
        "key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
    }  # fmt: skip
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pinion.services.edge_router", str(file)]
    with (
        running([sys.executable, str(POOL), str(pool_port)], f"{pool}/count", folder / "pool.log") as process,
        running(command, f"{url}/v1/models", folder / "router.log"),
    ):
        made = Site(url, engine, pool, folder, key, process)
        made.until(lambda: bool(made.health()["pool"] and made.health()["engine"] is engine_there))
        yield made
        made.client.close()


@pytest.fixture(scope="module")
def shared(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_of(llama, tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def site(shared: Site) -> Site:
    """The router with a pool that is well, and a policy by which load does not count."""
    shared.pool_way("well")
    shared.publish(cpu=1.0)
    # what failed requests closed, one that succeeds opens
    shared.until(
        lambda: bool(shared.health()["pool"] or (shared.ask(pinion={"hint": "pool"}) and shared.health()["pool"])), 90
    )
    return shared
