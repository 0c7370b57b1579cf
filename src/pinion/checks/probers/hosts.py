"""Probe hosts over SSH: their own state, and whom they can reach."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pinion.checks.model import Check, Finding, HostProbe, PingProbe, judge, not_run
from pinion.checks.probers import Prober
from pinion.plan.model import HostPlan, Plan

#: Seconds that a host may take for one batch of read-only commands.
HOST_TIMEOUT = 120.0

#: Two echo requests, one second each: enough to survive one lost ARP answer, short enough for the pings that must fail. As root, since
#: a login may lack the right to open an ICMP socket, and a ping that could not be sent must never pass for an isolated network.
PING = "sudo -n ping -n -c 2 -i 0.2 -W 1"

_SEPARATOR = "==pinion=="


@dataclass(frozen=True, slots=True)
class SshAccess:
    """How to log in to hosts: OpenSSH's own configuration, narrowed by a key and a known_hosts file when they are given."""

    key: Path | None
    known_hosts: Path | None

    def command(self, host: HostPlan) -> list[str]:
        """The ssh command line for *host*; host keys are always checked."""
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes"]
        if self.known_hosts is not None:
            options += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
        if self.key is not None:
            options += ["-i", str(self.key), "-o", "IdentitiesOnly=yes"]
        return ["ssh", *options, f"{host.user}@{host.address}"]


def host_prober(access: SshAccess) -> Prober:
    """A prober for HostProbe and PingProbe: one SSH session a host, all hosts side by side."""

    def probe(plan: Plan, checks: Sequence[Check]) -> list[Finding]:
        by_host: dict[str, list[Check]] = {}
        for check in checks:
            if isinstance(check.probe, HostProbe):
                by_host.setdefault(check.probe.host, []).append(check)
            elif isinstance(check.probe, PingProbe):
                by_host.setdefault(check.probe.source, []).append(check)
        hosts = {host.name: host for host in plan.hosts}
        with ThreadPoolExecutor(max_workers=max(1, min(32, len(by_host)))) as pool:
            batches = pool.map(lambda item: _on_host(access, hosts[item[0]], item[1]), by_host.items())
            return [finding for batch in batches for finding in batch]

    return probe


def script(checks: Sequence[Check]) -> str:
    """One POSIX shell script that runs the probes of one host side by side and prints each answer after a separator line."""
    lines = ["set -u", "d=$(mktemp -d) || exit 97", "trap 'rm -rf \"$d\"' EXIT"]
    for index, check in enumerate(checks):
        lines.append(f'( {_command(check)} ) >"$d/{index}" 2>/dev/null </dev/null &')
        if index % 8 == 7:
            lines.append("wait")
    lines += ["wait", f"for i in $(seq 0 {len(checks) - 1}); do echo '{_SEPARATOR}'; cat \"$d/$i\"; echo; done"]
    return "\n".join(lines) + "\n"


def _command(check: Check) -> str:
    if isinstance(check.probe, PingProbe):
        return (
            f"said=$({PING} {shlex.quote(check.probe.target)} 2>&1); code=$?; "
            'case "$code $said" in 0*) echo reachable;; 1*|*"Network is unreachable"*) echo unreachable;; '
            '*) echo "$said" | tail -n 1;; esac'
        )
    if isinstance(check.probe, HostProbe):
        return f"sudo -n sh -c {shlex.quote(check.probe.command)}" if check.probe.sudo else check.probe.command
    raise TypeError(f"{check.id} is no probe of a host")


def _on_host(access: SshAccess, host: HostPlan, checks: Sequence[Check]) -> list[Finding]:
    started = time.monotonic()
    try:
        run = subprocess.run(
            [*access.command(host), "sh -s"],
            input=script(checks),
            capture_output=True,
            text=True,
            timeout=HOST_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [
            not_run(check, f"{host.name} ({host.address}) did not answer within {HOST_TIMEOUT:.0f} s")
            for check in checks
        ]
    answers = [answer.strip() for answer in run.stdout.split(f"{_SEPARATOR}\n")[1:]]
    if len(answers) != len(checks):
        reason = (run.stderr.strip().splitlines() or [f"ssh ended with {run.returncode}"])[-1]
        return [not_run(check, f"{host.name} ({host.address}): {reason}") for check in checks]
    share = (time.monotonic() - started) / len(checks)
    return [judge(check, answer, share) for check, answer in zip(checks, answers, strict=True)]
