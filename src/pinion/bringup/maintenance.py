"""Maintenance of hosts in waves: each is drained first, worked on, rebooted where needed, proved, and back in the cluster only then.

A run that is killed may be run again at any moment: a host that was rebooted meanwhile no longer asks for it, and a node that an earlier
run has cordoned is let go once its host is well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pinion.bringup import cluster_node, reboot
from pinion.bringup.cluster_node import ClusterNodeError
from pinion.bringup.host_shell import HostRefusedError, UnreachedError
from pinion.bringup.reboot import Running
from pinion.bringup.rollout import Converge, Verify
from pinion.checks.model import Finding, Outcome
from pinion.drivers.hosts.answers import HostResult
from pinion.drivers.hosts.inventory import login
from pinion.plan.model import HostPlan

#: Seconds between two looks at a host that is going down or coming up.
_LOOK_SECONDS = 2.0


class Means(Protocol):
    """What maintenance needs of hosts and their cluster."""

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


@dataclass(frozen=True, slots=True)
class LiveMeans:
    """Implements `Means` over SSH and kubectl. *kubeconfig* None: the site has no cluster, or the run does without it.

    *purpose*: what nodes are marked as cordoned for. *lose*: pods, and what they keep on a node alone, may be lost.
    """

    kubeconfig: Path | None
    purpose: str
    lose: bool = False

    def look(self, host: HostPlan) -> Running:
        return reboot.look(host, login())

    def losses(self, node: str) -> tuple[str, ...]:
        return () if self.kubeconfig is None else cluster_node.losses(self.kubeconfig, node)

    def hold(self, node: str) -> str | None:
        return (
            None if self.kubeconfig is None else cluster_node.hold(self.kubeconfig, node, self.purpose, lose=self.lose)
        )

    def restart(self, host: HostPlan) -> None:
        reboot.restart(host, login())

    def held(self) -> frozenset[str]:
        return frozenset() if self.kubeconfig is None else cluster_node.held(self.kubeconfig)

    def let_go(self, node: str) -> None:
        if self.kubeconfig is not None:
            cluster_node.let_go(self.kubeconfig, node)


@dataclass(slots=True)
class Worked:
    """What came of the work on one host: its *changes*, and what waits for a reboot after it."""

    changes: list[Mapping[str, str]] = field(default_factory=list)
    reasons: Sequence[str] = ()

    def changed(self, kind: str, subject: str, before: str, after: str) -> None:
        """Note that *subject*, which is of *kind*, was *before* and is *after* now."""
        self.changes.append({"concern": "", "kind": kind, "subject": subject, "before": before, "after": after})


#: The work itself, on one drained host; it notes what it does as soon as it is done. Raises `UnreachedError`, `HostRefusedError`.
Work = Callable[[HostPlan, Worked], None]


@dataclass
class Maintenance:
    """Hosts that are taken out of their cluster, worked on and let in again; `each` and `verify` are for `pinion.bringup.rollout.roll_out`.

    *patience*: seconds that a host has to come back from a reboot. *drain* false: its pods are cut off, and a cluster that does not answer
    stops nothing; what it still keeps cordoned then waits for the next run.
    """

    hosts: Mapping[str, HostPlan]
    means: Means
    verify_hosts: Verify
    tell: Callable[[str], object]
    patience: float
    drain: bool = True
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def each(self, work: Work) -> Converge:
        """Drains hosts and has *work* done on them, all at the same time; an error where one could not."""

        def wave(names: Sequence[str]) -> Mapping[str, HostResult]:
            with ThreadPoolExecutor(max_workers=len(names)) as pool:
                return dict(zip(names, pool.map(lambda name: self._one(name, work), names), strict=True))

        return wave

    def _one(self, name: str, work: Work) -> HostResult:
        done = Worked()
        try:
            if self.drain and (said := self.means.hold(name)) is not None:
                self.tell(f"{name}: {said}")
            work(self.hosts[name], done)
        except (UnreachedError, HostRefusedError, ClusterNodeError) as error:
            return HostResult(done.changes, [str(error)])
        return HostResult(done.changes, reboot=[*done.reasons])

    def boot(self, host: HostPlan, before: Running, done: Worked) -> None:
        """Reboot *host*, which was running *before*, and await it.

        Raises `UnreachedError`, and `HostRefusedError` also when it asks for a reboot again.
        """
        self.means.restart(host)
        after = self._await(host, before)
        done.changed("reboot", host.name, before.boot, after.boot)
        self.tell(f"{host.name}: is back")
        if after.reasons:
            raise HostRefusedError(f"asks for a reboot again after one, for: {', '.join(after.reasons)}")

    def _await(self, host: HostPlan, before: Running) -> Running:
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
