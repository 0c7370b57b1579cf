"""The trial of an image: a machine started from it, and the checks that must hold there before the first converge."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pinion.checks.model import Finding
from pinion.checks.probers import run_all
from pinion.checks.probers.hosts import SshAccess, host_prober
from pinion.image.base import Base
from pinion.image.checks import image_checks
from pinion.image.identity import node_of
from pinion.image.node import NodeImage, Supplied, build, given
from pinion.image.packages import Say
from pinion.image.store import Store
from pinion.image.vm import running
from pinion.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it. *seconds* is from power on to the first login; *console* is kept."""

    image: NodeImage
    findings: tuple[Finding, ...]
    seconds: float
    console: Path


def try_node(
    store: Store, plan: Plan, base: Base, node: str, supplied: Supplied, key: Path | None, say: Say, *, patience: float
) -> Trial:
    """Start *node* from its image on *base*, log in with *key* (by default the store's own), and run its checks. Raises `ImageError`."""
    device = node_of(plan, node)
    image = build(store, plan, base, node, supplied, say)
    host = next(host for host in plan.hosts if host.name == node)
    access = SshAccess(key if supplied.admin_keys else store.admin_key, store.known_hosts)
    console = store.nodes / f"{node}.console.log"
    # beside the image: the copy that is started holds the same secrets
    with tempfile.TemporaryDirectory(prefix=".trial-", dir=store.nodes) as folder:
        work = Path(folder)
        try:
            with running(
                image.path, plan, host, access, work, patience=patience, say=lambda text: say(node, text)
            ) as machine:
                say(node, f"logged in after {machine.seconds:.0f} s; runs the checks")
                checks = image_checks(
                    plan, device, given(store, node, supplied, image.enrolment), image.identity, base.disk
                )
                findings = run_all(plan, checks, [host_prober(machine.access)])
                seconds = machine.seconds
        finally:
            if (work / "console.log").exists():
                shutil.copyfile(work / "console.log", console)
    return Trial(image, tuple(findings), seconds, console)
