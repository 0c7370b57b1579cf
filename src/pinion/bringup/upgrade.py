"""Newer packages for hosts.

What a host is told is the program `pinion.services.node_programs.upgrade`, which is sent and not left there. A run may be killed at any
moment and run again: the host goes on by itself with what it has begun, and the next run finishes it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from pinion.bringup.host_shell import HostRefusedError, Run, on
from pinion.bringup.maintenance import Maintenance, Worked
from pinion.drivers.hosts.inventory import Login
from pinion.plan.model import HostPlan

#: Seconds: the lists of packages over a slow line, and another run of apt that is waited for.
_CHECK_SECONDS = 600
#: Seconds: a kernel and its modules, fetched and unpacked on an SD card.
_UPGRADE_SECONDS = 3600
#: Kubernetes version skew policy: a kubelet may not be newer than the API server; the packages of Kubernetes' archive go together.
KUBERNETES_PACKAGES = ("kubeadm", "kubectl", "kubelet")


class Package(BaseModel):
    """One package of a host that becomes another version. *before* empty: it is new; *after* empty: it goes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    before: str
    after: str
    security: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'new'} -> {self.after or 'gone'}{' (security)' if self.security else ''}"


class Upgraded(BaseModel):
    """What a host said of its packages: what became newer, or would.

    *kept_back*: something would have to go for them, so a person decides. *refused*: what may not become newer, with why. *one_way*: what
    has no way back. *stays*: what was new and cannot go, since others need it now. *stale*: programs that still run with a replaced file.
    *kept*: on the way back, the runs that the host has a way back from.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    packages: tuple[Package, ...] = ()
    kept_back: tuple[str, ...] = ()
    refused: Mapping[str, str] = Field(default_factory=dict)
    one_way: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What hosts are asked for: the *run*'s name, and with *back* to be what they were before it.

    *newest*: for packages that may not pass something else, the minor version that they may have, as "1.34"; None where it is not known.
    *one_way*: also packages without a way back.
    """

    run: str
    newest: Mapping[str, str | None] = field(default_factory=dict)
    one_way: bool = False
    back: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The program's options."""
        return ("--back",) if self.back else ()

    def as_json(self) -> str:
        """As the program on the host reads it."""
        return json.dumps({"run": self.run, "newest": dict(self.newest), "one_way": self.one_way})


class Packages(Protocol):
    """What an upgrade needs of hosts, beside what `pinion.bringup.maintenance.Means` is."""

    def pending(self, host: HostPlan, request: Request) -> Upgraded:
        """What *host* would bring. Raises `UnreachedError`, `HostRefusedError`."""

    def change(self, host: HostPlan, request: Request) -> Upgraded:
        """Have *host* do it. Raises `UnreachedError`, `HostRefusedError`."""


@dataclass(frozen=True, slots=True)
class RemotePackages:
    """`Packages` over SSH."""

    access: Login
    run: Run = subprocess.run

    def pending(self, host: HostPlan, request: Request) -> Upgraded:
        """What *host* would bring; its lists of packages are fetched, nothing else changes."""
        return self._ask(host, request, _CHECK_SECONDS, "--check")

    def change(self, host: HostPlan, request: Request) -> Upgraded:
        """Have *host* do it."""
        return self._ask(host, request, _UPGRADE_SECONDS)

    def _ask(self, host: HostPlan, request: Request, seconds: float, *options: str) -> Upgraded:
        program = (resources.files("pinion.services.node_programs") / "upgrade.py").read_text(encoding="utf-8")
        command = f"sudo -n -H /usr/bin/python3 -I -B - {shlex.join([*options, *request.options, request.as_json()])}"
        said = on(host, self.access, command, program, seconds, self.run)
        try:
            return Upgraded.model_validate(json.loads(said))
        except ValueError:
            raise HostRefusedError(f"{host.name}: the upgrade ended without an answer: {said[-300:]!r}") from None


@dataclass
class Upgrades:
    """The upgrade of one host as `pinion.bringup.maintenance.Work`.

    *reboot* false: a host that should be rebooted only says so. *done*: what each host did.
    """

    maintenance: Maintenance
    packages: Packages
    request: Request
    reboot: bool = True
    done: dict[str, Upgraded] = field(default_factory=dict)

    def one(self, host: HostPlan, worked: Worked) -> None:
        """Upgrade *host* and reboot it where that is needed. Raises `UnreachedError`, `HostRefusedError`."""
        means, tell = self.maintenance.means, self.maintenance.tell
        before = means.look(host)
        done = self.done[host.name] = self.packages.change(host, self.request)
        for each in done.packages:
            worked.changed("package", each.name, each.before, each.after)
        tell(f"{host.name}: {len(done.packages)} packages changed")
        reasons = [*means.look(host).reasons]
        if done.stale:
            reasons.append(f"programs with replaced files: {', '.join(done.stale)}")
        if reasons and self.reboot:
            tell(f"{host.name}: is rebooted for {'; '.join(reasons)}")
            self.maintenance.boot(host, before, worked)
        else:
            worked.reasons = reasons
