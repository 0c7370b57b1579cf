"""The means of a decommissioning on a live site: Pulumi, SSH, the authority, kubectl, the probers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pinion.bringup import cluster_node, leaving_host
from pinion.bringup import stack as pulumi_stack
from pinion.bringup.access import Access
from pinion.bringup.leaving_host import Wiped
from pinion.bringup.programs import obtain
from pinion.bringup.refusing import Refused, refuse, telling
from pinion.bringup.stack import Foreseen
from pinion.bringup.verification import probers, settled
from pinion.checks.model import Check, Finding
from pinion.checks.probers import run_all
from pinion.drivers.hosts.inventory import login
from pinion.drivers.identity.authority import Authority
from pinion.drivers.identity.place import AuthorityError, folder_of
from pinion.drivers.identity.revoking import revoke
from pinion.plan.leaving import behind
from pinion.plan.model import HostPlan, Plan

#: Seconds that a claim has until it must hold: a switch answers a moment after it was configured.
_SETTLE = 15.0


@dataclass(frozen=True, slots=True)
class LiveMeans:
    """Implements `pinion.bringup.decommission.Means`.

    *root* is the folder with the Pulumi program, *plan* that of the site file *site*, with the node leaving; *tell* hears of what takes
    long.
    """

    root: Path
    plan: Plan
    access: Access
    site: Path
    tell: Callable[[str], None]

    def foreseen(self) -> Sequence[Foreseen]:
        obtain(["pulumi", "helm"], self.tell)
        locks = pulumi_stack.remove_stale_locks(self.root, self.plan.site)
        for line in (*(f"removed {lock}" for lock in locks.removed), *locks.unclear):
            self.tell(line)
        return pulumi_stack.preview(self.root, self.plan.site)

    def update(self, tell: Callable[[str], None]) -> int:
        return pulumi_stack.up(self.root, self.plan.site, refresh=True, progress=tell).changed

    def serial(self, host: HostPlan) -> int | None:
        return leaving_host.serial(host, login())

    def look(self, host: HostPlan) -> Wiped:
        return leaving_host.look(host, behind(host), login())

    def wipe(self, host: HostPlan) -> Wiped:
        return leaving_host.wipe(host, behind(host), login())

    def refuse(self, node: str) -> Refused | None:
        if self.plan.authority is None:
            raise AuthorityError(f"{self.plan.site} has no authority")
        authority = Authority(folder_of(self.plan.site, os.environ))
        subject = f"{node}.{self.plan.authority.domain}"
        return refuse(authority, self.plan.authority, subject, telling(self.root, self.site))

    def revoke(self, serial: int, reason: str) -> bool:
        if self.plan.authority is None:
            raise AuthorityError(f"{self.plan.site} has no authority")
        return revoke(Authority(folder_of(self.plan.site, os.environ)), self.plan.authority.url, serial, reason)

    def drain(self, node: str) -> str | None:
        kubeconfig = self._kubeconfig()
        return None if kubeconfig is None else cluster_node.drain(kubeconfig, node, lose=True)

    def forget(self, node: str) -> bool:
        kubeconfig = self._kubeconfig()
        return False if kubeconfig is None else cluster_node.forget(kubeconfig, node)

    def verify(self, wanted: Sequence[Check]) -> Sequence[Finding]:
        ways = probers(self.access)
        return settled(lambda some: run_all(self.plan, some, ways), wanted, seconds=_SETTLE, tell=self.tell)

    def _kubeconfig(self) -> Path | None:
        """Where the cluster is; None when the site has none, or the stack's configuration does not say."""
        if self.plan.cluster is None or self.access.kubeconfig is None:
            return None
        obtain(["kubectl"], self.tell)
        return self.access.kubeconfig
