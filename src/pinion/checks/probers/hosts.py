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

#: Seconds that a host may take for its probes, beside those that are cut off after a time of their own.
HOST_TIMEOUT = 120.0
#: Seconds without a sign of life until a connection counts as dead, in two halves.
_SILENCE = 60

#: Two echo requests, one second each: enough to survive one lost ARP answer, short enough for the pings that must fail. As root, since
#: a login may lack the right to open an ICMP socket, and a ping that could not be sent must never pass for an isolated network.
PING = "ping -n -c 2 -i 0.2 -W 1"

_SEPARATOR = "==pinion=="
_HEREDOC = "==pinion-root=="
#: What a probe says that was cut off; timeout(1) then ends with 124, or with 137 where it had to kill it.
_LATE = "==pinion-late=="
#: Seconds between asking a late probe to end and making it.
_GRACE = 2
#: Probes of one shell at a time: a host's own work goes on beside them.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SshAccess:
    """How to log in to hosts: OpenSSH's own configuration, narrowed by a key and a known_hosts file when they are given.

    *at* is where every host is reached instead of its own address: name and port of a forwarder. The host key must be the host's.
    *timeout* is how many seconds a host may take for its probes, beside those that are cut off after a time of their own.
    """

    key: Path | None
    known_hosts: Path | None
    at: tuple[str, int] | None = None
    timeout: float = HOST_TIMEOUT

    def command(self, host: HostPlan) -> list[str]:
        """The ssh command line for *host*; host keys are always checked."""
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes"]
        options += ["-o", f"ServerAliveInterval={_SILENCE // 2}", "-o", "ServerAliveCountMax=2"]
        if self.known_hosts is not None:
            options += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
        if self.key is not None:
            options += ["-i", str(self.key), "-o", "IdentitiesOnly=yes"]
        if self.at is not None:
            options += ["-o", f"HostKeyAlias={host.address}", "-o", "CheckHostIP=no", "-p", str(self.at[1])]
        return ["ssh", *options, f"{host.user}@{self.at[0] if self.at is not None else host.address}"]


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
    """One POSIX shell script that runs the probes of one host and prints each answer after a separator line with the probe's number.

    Probes that need root share one root shell beside the login's own: a `sudo` for each costs more than all probes together.
    """
    numbered = list(enumerate(checks))
    as_root = [(number, check) for number, check in numbered if _needs_root(check)]
    ordinary = [entry for entry in numbered if entry not in as_root]
    lines = ["set -u", "r=$(mktemp) || exit 97", "trap 'rm -f \"$r\"' EXIT"]
    if as_root:
        lines += [f"sudo -n sh -s >\"$r\" <<'{_HEREDOC}' &", *_batch(as_root), _HEREDOC]
    return "\n".join([*lines, "(", *_batch(ordinary), ")", "wait", 'cat "$r"']) + "\n"


def answers(said: str) -> dict[int, str]:
    """What a host's run of `script` printed, by the number of the probe."""
    found: dict[int, str] = {}
    for part in said.split(f"{_SEPARATOR} ")[1:]:
        number, _, answer = part.partition("\n")
        if number.isdecimal():
            found[int(number)] = answer.strip()
    return found


def _batch(numbered: Sequence[tuple[int, Check]]) -> list[str]:
    """Shell lines that run probes, a few at once beside all that wait for silence, then print all answers.

    Those that may take long come last, so that those of each few may take about as long.
    """
    silent = [entry for entry in numbered if entry[1].silent]
    quick = [entry for entry in numbered if not entry[1].silent and not _limit(entry[1])]
    slow = sorted((entry for entry in numbered if _limit(entry[1])), key=lambda entry: -_limit(entry[1]))
    lines = ["d=$(mktemp -d) || exit 97", "trap 'rm -rf \"$d\"' EXIT", "p="]
    lines += [_begin(number, check) for number, check in silent]
    for some in (quick, slow):
        for at in range(0, len(some), _AT_ONCE):
            for number, check in some[at : at + _AT_ONCE]:
                lines += [_begin(number, check), 'p="$p $!"']
            lines.append("wait $p; p=")
    return [*lines, "wait", *(['cat "$d"/*'] if numbered else [])]


def _begin(number: int, check: Check) -> str:
    return f'( echo "{_SEPARATOR} {number}"; {_command(check)} ) >"$d/{number}" 2>/dev/null </dev/null &'


def _needs_root(check: Check) -> bool:
    return isinstance(check.probe, PingProbe) or (isinstance(check.probe, HostProbe) and check.probe.sudo)


def _command(check: Check) -> str:
    if isinstance(check.probe, PingProbe):
        return (
            f"said=$({PING} {shlex.quote(check.probe.target)} 2>&1); code=$?; "
            'case "$code $said" in 0*) echo reachable;; 1*|*"Network is unreachable"*) echo unreachable;; '
            '*) echo "$said" | tail -n 1;; esac'
        )
    if isinstance(check.probe, HostProbe):
        if check.probe.seconds is None:
            return check.probe.command
        limited = f"timeout -k {_GRACE} {check.probe.seconds:g} sh -c {shlex.quote(check.probe.command)}"
        return f"{limited}; case $? in 124|137) echo {_LATE};; esac"
    raise TypeError(f"{check.id} is no probe of a host")


def _limit(check: Check) -> float:
    """Seconds after which a probe is cut off; 0 for one that is not."""
    return (check.probe.seconds or 0.0) if isinstance(check.probe, HostProbe) else 0.0


def patience(checks: Sequence[Check]) -> float:
    """Seconds that the probes may take that are cut off: as if the longest of each few were."""
    slowest = sorted((limit for check in checks if (limit := _limit(check))), reverse=True)
    return sum(limit + _GRACE for limit in slowest[::_AT_ONCE])


def _on_host(access: SshAccess, host: HostPlan, checks: Sequence[Check]) -> list[Finding]:
    started = time.monotonic()
    timeout = access.timeout + patience(checks)
    try:
        run = subprocess.run(
            [*access.command(host), "sh -s"],
            input=script(checks),
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a host may print anything
            timeout=timeout,
            check=False,
        )
    except OSError as error:
        return [not_run(check, f"{host.name} ({host.address}): {error}") for check in checks]
    except subprocess.TimeoutExpired:
        return [
            not_run(check, f"{host.name} ({host.address}) did not answer within {timeout:.0f} s") for check in checks
        ]
    found = answers(run.stdout)
    reason = (run.stderr.strip().splitlines() or [f"ssh ended with {run.returncode}"])[-1]
    share = (time.monotonic() - started) / len(checks)
    return [
        _finding(check, found.get(number), f"{host.name} ({host.address}): {reason}", share)
        for number, check in enumerate(checks)
    ]


def _finding(check: Check, answer: str | None, reason: str, seconds: float) -> Finding:
    """What *answer* comes to; without one, *reason* says why."""
    if answer is None:
        return not_run(check, reason)
    if answer.endswith(_LATE):
        return not_run(check, f"it was cut off after {_limit(check):g} s")
    return judge(check, answer, seconds)
