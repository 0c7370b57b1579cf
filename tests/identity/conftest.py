"""A real step-ca on loopback, configured as the plan has it, and hosts in temporary folders."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.issuers import as_json, issuer
from pinion.drivers.identity.tokens import enrolment
from pinion.lab.ports import free_ports
from pinion.plan.concerns import site_ca
from pinion.services import node_programs

PROGRAM = Path(node_programs.__file__).parent / "identity.py"
STEP_CA = Path(os.environ.get("PINION_CACHE", "/var/cache/pinion")) / "bin" / "step-ca"
DOMAIN = "rack.internal"
NETWORKS = ("127.0.0.0/8", "10.77.100.0/24")
LIFETIME = 3600


class StepCa:
    """One authority and its step-ca; it can be stopped and started again."""

    def __init__(
        self,
        folder: Path,
        authority: Authority,
        lifetime: int = LIFETIME,
        *,
        domain: str = DOMAIN,
        networks: Sequence[str] = NETWORKS,
        hosts: Sequence[str] = ("pi-01", "pi-02", "nv-1"),
    ) -> None:
        self.domain, self.hosts = domain, tuple(hosts)
        self.folder, self.authority, self.port = folder, authority, free_ports(1)[0]
        self.url = f"https://127.0.0.1:{self.port}"
        self.log = folder / "step-ca.log"
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True)
        files = {
            "root.crt": authority.root,
            "intermediate.crt": authority.intermediate,
            "intermediate.key": authority.intermediate_key,
            "ca.json": site_ca.configuration(
                ["127.0.0.1", f"ca.{domain}"],
                f"127.0.0.1:{self.port}",
                lifetime,
                domain,
                networks,
                folder=str(folder),
                data=str(data),
            ),
        }
        for name, text in files.items():
            path = folder / name
            path.write_text(text)
            path.chmod(0o600)
        self._stated = files["ca.json"]
        self.serves(*hosts)

    def serves(self, *hosts: str) -> None:
        """Have the configuration for *hosts*, as a converge run writes it; it counts from the next start on."""
        stated = as_json(self.authority, [f"{host}.{self.domain}" for host in hosts])
        path = self.folder / "ca.json"
        path.write_text(self._stated.replace(site_ca.PROVISIONERS_PLACEHOLDER, stated))

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [STEP_CA, self.folder / "ca.json"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "STEPPATH": str(self.folder)},
            )
        context = ssl.create_default_context(cadata=self.authority.root)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        until = time.monotonic() + 60
        while time.monotonic() < until:
            assert self._process.poll() is None, self.log.read_text()
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5, context=context):
                return
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def stop(self) -> None:
        """End it, and wait until it has."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=30)
            self._process = None


class Host:
    """A host in a folder, with the program on it."""

    def __init__(self, folder: Path, ca: StepCa, name: str = "pi-01") -> None:
        self.folder, self.ca = folder, ca
        self.names = (f"{name}.{DOMAIN}", "10.77.100.11")
        self.data, self.token_file = folder / "data", folder / "run" / "token"
        self.seed_token_file = self.data / "enrolment-token"
        self.metrics_file = folder / "textfiles" / "identity.prom"
        self.metrics_file.parent.mkdir(parents=True)
        self.token_file.parent.mkdir(parents=True)
        self.config: dict[str, Any] = {
            "authority": ca.url,
            "root": ca.authority.fingerprint,
            "names": self.names,
            "lifetime": LIFETIME,
            "folder": str(self.data),
            "token": str(self.token_file),
            "seed_token": str(self.seed_token_file),
            "metrics": str(self.metrics_file),
            "reload": [],
            "wait": 0,
        }

    @property
    def config_file(self) -> Path:
        path = self.folder / "identity.json"
        path.write_text(json.dumps(self.config))
        return path

    @property
    def current(self) -> Path:
        return self.data / "current"

    def token(self, names: tuple[str, ...] | None = None, seconds: int = 300) -> str:
        """Hand the host a new token; what it is."""
        signer = issuer(self.ca.authority, self.names[0])
        made = enrolment(self.ca.authority, self.ca.url, names or self.names, seconds, issuer=signer)
        self.give(made)
        return made

    def give(self, token: str) -> None:
        self.token_file.write_text(token)
        self.token_file.chmod(0o600)

    def seeded(self, names: tuple[str, ...] | None = None, seconds: int = 300) -> str:
        """Give the host a new token as its image does; what it is."""
        signer = issuer(self.ca.authority, self.names[0])
        made = enrolment(self.ca.authority, self.ca.url, names or self.names, seconds, issuer=signer)
        self.data.mkdir(exist_ok=True)
        self.seed_token_file.write_text(made)
        self.seed_token_file.chmod(0o600)
        return made

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the program as its unit does."""
        return subprocess.run(
            [sys.executable, "-I", PROGRAM, *arguments, "--config", self.config_file],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], **(env or {})},
            check=False,
        )

    def run_at(self, module: ModuleType, command: str, now: Callable[[], float]) -> int:
        """Run the program in this process, by another clock."""
        code: int = module.main([command, "--config", str(self.config_file)], now)
        return code

    def enrolled(self) -> None:
        """Enrol, and see that it worked."""
        self.token()
        done = self.run("enrol")
        assert done.returncode == 0, done.stderr

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status").stdout)
        return found

    def metrics(self) -> dict[str, float]:
        lines = [line.split() for line in self.metrics_file.read_text().splitlines() if not line.startswith("#")]
        return {name.removeprefix("pinion_identity_"): float(value) for name, value in lines}

    def assert_whole(self) -> None:
        """What is in use is a pair that belongs together and that openssl takes; nothing half-made is beside it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(self.current / "cert.pem", self.current / "key.pem")
        subprocess.run(
            ["openssl", "verify", "-CAfile", "root.pem", "-untrusted", "chain.pem", "cert.pem"],
            cwd=self.current,
            check=True,
            capture_output=True,
        )
        assert (self.current / "key.pem").stat().st_mode & 0o777 == 0o600


@pytest.fixture(scope="session")
def step_ca_program() -> Path:
    if not STEP_CA.exists():
        pytest.skip(f"{STEP_CA} is not there: obtain it with make tools")
    return STEP_CA


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    found = Authority(tmp_path_factory.mktemp("authority") / "rack")
    assert found.make("rack", DOMAIN, NETWORKS)
    return found


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory, authority: Authority, step_ca_program: Path) -> Iterator[StepCa]:
    """A step-ca that the tests of one file share; who stops it starts it again."""
    found = StepCa(tmp_path_factory.mktemp("ca"), authority)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def host(tmp_path: Path, ca: StepCa) -> Host:
    return Host(tmp_path, ca)


@pytest.fixture(scope="session")
def program() -> ModuleType:
    """The program as a module, for runs by another clock."""
    spec = importlib.util.spec_from_file_location("pinion_identity_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
