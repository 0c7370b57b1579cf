"""Checks of the plan on real hosts, by testinfra.

    pytest tests/hosts --site lab                       every host of the site
    pytest tests/hosts --site lab --hosts pi-01,nv-1    some, by name, group or address; `ssh://` and `ansible://` before them are fine

How to log in: PINION_SSH_KEY and PINION_KNOWN_HOSTS, as for `pinion converge`.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

from pinion.checks.hosts import host_checks
from pinion.checks.model import Check
from pinion.drivers.hosts.inventory import login, plan_of, ssh_options
from pinion.plan.model import HostPlan, Plan
from pinion.site.find import site_file


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--site``: whose hosts."""
    parser.addoption("--site", metavar="SITE", help="site file, or the name of a folder under inventories/")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a check of the chosen hosts. Without a site there is one test, which is skipped and says why."""
    if "check" not in metafunc.fixturenames:
        return
    written = metafunc.config.getoption("--site", default=None)
    if written is None:
        why = pytest.mark.skip(reason="checks of real hosts: name a site with --site, in the operator's position")
        metafunc.parametrize("check", [pytest.param(None, marks=why)], ids=["no-site"])
        return
    plan = plan_of(site_file(written))
    hosts = {host.name for host in plan.hosts if _chosen(host, metafunc.config.getoption("--hosts"))}
    checks = [check for check in host_checks(plan) if check.subject in hosts]
    if not checks:
        raise pytest.UsageError(f"no host of {plan.site} matches --hosts {metafunc.config.getoption('--hosts')}")
    metafunc.parametrize("check", checks, ids=[check.id for check in checks])


def _chosen(host: HostPlan, written: str | None) -> bool:
    patterns = [entry.rpartition("//")[2].rpartition("@")[2] for entry in (written or "*").split(",")]
    names = (host.name, host.address, "all", *host.groups)
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Plan:
    """The plan of the site."""
    return plan_of(site_file(pytestconfig.getoption("--site")))


@dataclass(frozen=True, slots=True)
class Connections:
    """testinfra's hosts by name: one SSH connection each for all checks, kept in *folder*."""

    folder: Path
    hosts: dict[str, Host] = field(default_factory=dict)

    def to(self, host: HostPlan) -> Host:
        """The connection to *host*."""
        if host.name not in self.hosts:
            access = login()
            self.hosts[host.name] = testinfra.get_host(
                f"ssh://{host.user}@{host.address}",
                ssh_identity_file=str(access.key) if access.key is not None else None,
                ssh_extra_args=shlex.join([*ssh_options(access), "-o", "BatchMode=yes"]),
                controlpath=str(self.folder / host.name),
            )
        return self.hosts[host.name]

    def close(self) -> None:
        """End the connections, so that none outlives the tests."""
        for name in self.hosts:
            argv = ["ssh", "-o", f"ControlPath={self.folder / name}", "-O", "exit", name]
            subprocess.run(argv, capture_output=True, check=False)


@pytest.fixture(scope="session")
def connections() -> Iterator[Connections]:
    """Connections for all checks. Their sockets' paths must be short (104 bytes at most)."""
    with tempfile.TemporaryDirectory(prefix="pinion-") as folder:
        made = Connections(Path(folder))
        yield made
        made.close()


@pytest.fixture
def target(check: Check, plan: Plan, connections: Connections) -> Host:
    """The host that *check* is about."""
    return connections.to(next(host for host in plan.hosts if host.name == check.subject))
