"""Every claim of the plan about a host, on that host."""

from __future__ import annotations

from contextlib import nullcontext

from testinfra.host import Host

from pinion.checks.model import Check, HostProbe


def test_claim(check: Check, target: Host) -> None:
    assert isinstance(check.probe, HostProbe)
    with target.sudo() if check.probe.sudo else nullcontext():
        said = target.run(check.probe.command).stdout.strip()
    assert said == check.expected, f"{check.subject}: {check.claim} {said!r}; {check.remedy}"
