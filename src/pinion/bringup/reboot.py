"""A reboot of the hosts that ask for one, in waves: drained first, proved afterwards, and back in the cluster only then.

A run that is killed may be run again at any moment: a host that was rebooted meanwhile no longer asks for it, and a node that an earlier
run has cordoned is let go once its host is well.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.host_shell import HostRefusedError, Run, UnreachedError, on
from pinion.bringup.rollout import Verify
from pinion.checks.model import Finding, Outcome
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.inventory import Login
from pinion.drivers.hosts.onhost.notes import BOOT
from pinion.plan.model import HostPlan

#: Seconds for one question to a host.
_ASK_SECONDS = 30
#: Seconds between two looks at a host that is going down or coming up.
_LOOK_SECONDS = 2.0
#: Debian's own note of packages that count from the next boot on.
_PACKAGES = "/run/reboot-required.pkgs"
_REQUIRED = "/run/reboot-required"
#: One root shell. The kernel's boot id and the start of process 1 together tell one boot from the next, in a container too.
_LOOK = (
    "sudo -n sh -c '"
    'cat /proc/sys/kernel/random/boot_id; cut -d" " -f22 /proc/1/stat; '
    f'if test -e {BOOT}; then cat {BOOT}; else echo "[]"; fi; '
    f"if test -e {_REQUIRED}; then echo packages: $(sort -u {_PACKAGES} 2>/dev/null); fi'"
)
#: In a moment, so that this login ends in order and its exit code is that of systemd's answer.
_RESTART = "sudo -n systemd-run --quiet --on-active=1 --timer-property=AccuracySec=100ms systemctl reboot"


@dataclass(frozen=True, slots=True)
class Running:
    """What a host is running: *boot* names the boot, *reasons* is what waits for the next one."""

    boot: str
    reasons: tuple[str, ...]


class Means(Protocol):
    """What a reboot needs of the world."""

    def look(self, host: HostPlan) -> Running:
        """What *host* is running. Raises `UnreachedError`, `HostRefusedError`."""

    def losses(self, node: str) -> tuple[str, ...]:
        """What is lost when the pods of *node* move elsewhere, in words. Raises `ClusterNodeError`."""

    def hold(self, node: str) -> str | None:
        """Move the pods of *node* elsewhere until `let_go`; None for one that is not in the cluster. Raises `ClusterNodeError`."""

    def restart(self, host: HostPlan) -> None:
        """Reboot *host* in a moment. Raises `UnreachedError`, `HostRefusedError`."""

    def held(self) -> frozenset[str]:
        """The nodes that `hold` has cordoned, in this run or an earlier one. Raises `ClusterNodeError`."""

    def let_go(self, node: str) -> None:
        """Pods may start on *node* again. Raises `ClusterNodeError`."""


def look(host: HostPlan, access: Login, run: Run = subprocess.run) -> Running:
    """What *host* is running. Raises `UnreachedError`, `HostRefusedError`."""
    said = on(host, access, _LOOK, "", _ASK_SECONDS, run).splitlines()
    try:
        kernel, first, noted, *packages = said
        return Running(f"{kernel}:{int(first)}", (*map(str, json.loads(noted)), *packages))
    except ValueError:
        raise HostRefusedError(f"{host.name} cannot say what it is running: {' '.join(said)[:200]!r}") from None


def restart(host: HostPlan, access: Login, run: Run = subprocess.run) -> None:
    """Reboot *host* in a moment. Raises `UnreachedError`, `HostRefusedError`."""
    on(host, access, _RESTART, "", _ASK_SECONDS, run)


def survey(hosts: Sequence[HostPlan], means: Means) -> dict[str, Running | str]:
    """What each of *hosts* is running, by name; a text says why one could not be asked."""

    def ask(host: HostPlan) -> Running | str:
        try:
            return means.look(host)
        except (UnreachedError, HostRefusedError) as error:
            return str(error)

    with ThreadPoolExecutor(max_workers=min(len(hosts), 32) or 1) as pool:
        return dict(zip((host.name for host in hosts), pool.map(ask, hosts), strict=True))


@dataclass
class Reboots:
    """Reboots hosts, a wave at a time; its methods are what `pinion.bringup.rollout.roll_out` asks for.

    *before*: what each host was running when it was decided. *patience*: seconds that a host has to come back. *drain* false: its pods are
    cut off, and a cluster that does not answer stops nothing; what it still keeps cordoned then waits for the next run.
    """

    hosts: Mapping[str, HostPlan]
    before: Mapping[str, Running]
    means: Means
    verify_hosts: Verify
    tell: Callable[[str], object]
    patience: float
    drain: bool = True
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def wave(self, names: Sequence[str]) -> Mapping[str, HostResult]:
        """Drain, reboot and await *names*, all at the same time; an error where a host did not come back as it should."""
        with ThreadPoolExecutor(max_workers=len(names)) as pool:
            return dict(zip(names, pool.map(self._one, names), strict=True))

    def _one(self, name: str) -> HostResult:
        host, before = self.hosts[name], self.before[name]
        try:
            if self.drain and (said := self.means.hold(name)) is not None:
                self.tell(f"{name}: {said}")
            after = self.boot(host, before)
        except (UnreachedError, HostRefusedError, ClusterNodeError) as error:
            return HostResult(errors=[str(error)])
        self.tell(f"{name}: is back")
        change = {"concern": "", "kind": "reboot", "subject": name, "before": before.boot, "after": after.boot}
        if after.reasons:
            return HostResult(
                changes=[change], errors=[f"asks for a reboot again after one, for: {', '.join(after.reasons)}"]
            )
        return HostResult(changes=[change])

    def boot(self, host: HostPlan, before: Running) -> Running:
        """Reboot *host* and await it; what it is running then. Raises `UnreachedError`, `HostRefusedError`."""
        self.means.restart(host)
        give_up = self.clock() + self.patience
        said = "it has not gone down"
        while self.clock() < give_up:
            self.sleep(_LOOK_SECONDS)
            try:
                after = self.means.look(host)
            except (UnreachedError, HostRefusedError) as error:
                said = str(error)
                continue
            if after.boot != before.boot:
                return after
        raise UnreachedError(f"{host.name} was told to reboot and is not back after {self.patience:.0f} s: {said}")

    def verify(self, names: Sequence[str]) -> Sequence[Finding]:
        """Run the checks of *names*; where all of them hold, pods may come back. Raises `ClusterNodeError`."""
        findings = self.verify_hosts(names)
        bad = {finding.check.subject for finding in findings if finding.outcome is not Outcome.PROVED}
        with self._cluster():
            for node in sorted(self.means.held() & {name for name in names if name not in bad}):
                self.means.let_go(node)
        return findings

    @contextmanager
    def _cluster(self) -> Iterator[None]:
        """For questions to the cluster that a run without draining can do without."""
        try:
            yield
        except ClusterNodeError as error:
            if self.drain:
                raise
            self.tell(f"no node is uncordoned now: {error}")

    def losses(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What is lost when the pods of *names* move elsewhere, for each node where something is. Raises `ClusterNodeError`."""
        found = {name: self.means.losses(name) for name in names} if self.drain else {}
        return {name: lost for name, lost in found.items() if lost}

    def take_up(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of *names* that an earlier run has left cordoned: the names of those let go, and of those whose checks do not hold.

        Raises `ClusterNodeError`.
        """
        left = kept = frozenset[str]()
        with self._cluster():
            left = kept = self.means.held() & set(names)
            if left:
                self.verify(sorted(left))
                kept = self.means.held() & left
        return tuple(sorted(left - kept)), tuple(sorted(kept))
