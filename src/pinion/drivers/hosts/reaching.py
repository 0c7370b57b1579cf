"""Why a host cannot be reached, in words that say what to do: asked of OpenSSH, because neither Ansible nor pyinfra tells it plainly."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pinion.drivers.hosts.answers import UNREACHED, HostResult
from pinion.drivers.hosts.inventory import Login, ssh_options
from pinion.plan.model import HostPlan

#: Seconds for one login; as long as Ansible's own.
_CONNECT_SECONDS = 10
#: Of so many hosts the reason is asked for; a whole site that is dark has one reason.
_ASKED = 20


def explain_unreached(results: Mapping[str, HostResult], hosts: Iterable[HostPlan], access: Login) -> None:
    """Put the reason into the results of hosts that could not be reached (of the first twenty of them)."""
    dark = [host for host in hosts if host.name in results and _unreached(results[host.name])][:_ASKED]
    with ThreadPoolExecutor(max_workers=max(1, len(dark))) as pool:
        for host, said in zip(dark, pool.map(lambda host: _login(host, access), dark), strict=True):
            if said is not None:
                results[host.name].errors[:] = [explain(said, host, access)]


def _unreached(result: HostResult) -> bool:
    return any(error.startswith(UNREACHED) for error in result.errors)


def _login(host: HostPlan, access: Login) -> str | None:
    """What ssh says when it fails; None when it works by now."""
    key = ["-i", str(access.key)] if access.key is not None else []
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}", "-o", "ControlPath=none"]
    command = ["ssh", *options, *ssh_options(access), *key, f"{host.user}@{host.address}", "true"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2 * _CONNECT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr


def explain(said: str, host: HostPlan, access: Login) -> str:
    """What to do about *said*, ssh's own words, for *host*."""
    known = str(access.known_hosts) if access.known_hosts is not None else "~/.ssh/known_hosts"
    compare = "compare it at the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)"
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said:
        return (
            f"{UNREACHED}: its SSH host key is not the one in {known}, so it may be another machine; refused. If it was installed anew, "
            f"{compare}, then accept it: ssh-keygen -R {host.address} -f {known}; ssh-keyscan {host.address} >>{known}"
        )
    if "Host key verification failed" in said or "host key is known" in said:
        accept = f"ssh-keyscan {host.address} >>{known}"
        return f"{UNREACHED}: {known} does not know its SSH host key; refused. To accept it, {compare}, then: {accept}"
    if "Permission denied" in said:
        key = f"the key {access.key}" if access.key is not None else "no key of the SSH agent or ~/.ssh"
        return f"{UNREACHED}: {host.user}@{host.address} does not let {key} in; name the right one with PINION_SSH_KEY"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{UNREACHED}: {lines[-1] if lines else 'ssh said nothing'}"
