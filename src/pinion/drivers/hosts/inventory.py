"""The hosts of a site as Ansible, pyinfra and testinfra need them: the site file is the only inventory.

Names, addresses, groups and concerns come from the plan. How to log in comes from the environment, because a site file holds no secrets:
``PINION_SSH_KEY`` (path of the private key) and ``PINION_KNOWN_HOSTS`` (path of the known_hosts file). Either may be unset; then the
program's own ways apply (agent, ``~/.ssh``). Host keys are always checked.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.plan import plan
from pinion.plan.hosts import concern_names
from pinion.plan.model import HostPlan, Plan
from pinion.site.loader import load


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in: files that exist on the controller, None where nothing is stated."""

    key: Path | None
    known_hosts: Path | None


def login(variables: Mapping[str, str] | None = None) -> Login:
    """The login that the environment states."""
    given = os.environ if variables is None else variables
    key, known_hosts = given.get("PINION_SSH_KEY"), given.get("PINION_KNOWN_HOSTS")
    return Login(Path(key) if key else None, Path(known_hosts) if known_hosts else None)


def plan_of(path: Path) -> Plan:
    """The plan of the site file *path*. Raises `pinion.site.errors.SiteErrors` with every problem that it has."""
    return plan(load(path))


def ssh_options(access: Login) -> list[str]:
    """OpenSSH's options for *access*."""
    options = ["-o", "StrictHostKeyChecking=yes"]
    if access.known_hosts is not None:
        options += ["-o", f"UserKnownHostsFile={access.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
    if access.key is not None:
        options += ["-o", "IdentitiesOnly=yes"]
    return options


def ansible_variables(host: HostPlan, access: Login) -> dict[str, object]:
    """Ansible's variables of *host*: how to connect, and the HostPlan as ``pinion_host``."""
    found: dict[str, object] = {
        "ansible_host": host.address,
        "ansible_user": host.user,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": shlex.join(ssh_options(access)),
        "pinion_host": host.model_dump(mode="json"),
        "pinion_concerns": list(concern_names()),
    }
    if access.key is not None:
        found["ansible_ssh_private_key_file"] = str(access.key)
    return found


def pyinfra_data(host: HostPlan, access: Login) -> dict[str, object]:
    """pyinfra's data of *host*: how to connect, and the HostPlan as ``pinion_host``."""
    found: dict[str, object] = {
        "ssh_hostname": host.address,
        "ssh_user": host.user,
        "ssh_strict_host_key_checking": "yes",
        "pinion_host": host.model_dump(mode="json"),
        "pinion_concerns": list(concern_names()),
    }
    if access.key is not None:
        found |= {"ssh_key": str(access.key), "ssh_allow_agent": False, "ssh_look_for_keys": False}
    if access.known_hosts is not None:
        found["ssh_known_hosts_file"] = str(access.known_hosts)
    return found
