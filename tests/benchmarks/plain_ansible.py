"""The same state as a playbook of Ansible's own modules, as a careful author would write it: what `hosts_converge` compares with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pinion.plan.model import Concern, HostFile, HostPlan

Task = dict[str, Any]
#: Folders that Debian and the packages have, which no role makes.
_THERE = frozenset(
    (
        "/etc",
        "/etc/apt/apt.conf.d",
        "/etc/chrony",
        "/etc/default",
        "/etc/ssh/sshd_config.d",
        "/etc/sudoers.d",
        "/etc/sysctl.d",
        "/etc/systemd",
    )
) | {"/etc/systemd/system"}
#: What a shell would have to read; Ansible's `validate` takes a command.
_SHELL = set("|&;<>$`(){}*?\\'\"")


def inventory(hosts: Sequence[HostPlan], key: str, known_hosts: str, files: Path) -> dict[str, Any]:
    """*hosts* with how to log in, and the folder of each one's files, which are written to below *files*."""
    login = {
        "ansible_ssh_private_key_file": key,
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    stated = {}
    for host in hosts:
        own = files / host.name
        for file in (file for concern in host.concerns.values() for file in concern.files):
            place = own / file.path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.content)
        stated[host.name] = {"ansible_host": host.address, "ansible_user": host.user, "own": str(own)}
    return {"all": {"hosts": stated, "vars": login}}


def playbook(host: HostPlan) -> list[dict[str, Any]]:
    """One play that brings about what *host*, and every host like it, is planned to be."""
    made = {task["name"]: task for concern in host.concerns.values() for task in _tasks(concern)}
    tasks = list(made.values())  # a folder that two files lie in is one task
    return [
        {
            "hosts": "all",
            "gather_facts": False,
            "become": True,
            "tasks": tasks,
            "handlers": list(_handlers(host)),
        }
    ]


def _tasks(concern: Concern) -> Iterator[Task]:
    if concern.packages:
        yield {
            "name": f"{concern.name}: packages",
            "ansible.builtin.apt": {"name": list(concern.packages), "install_recommends": False},
        }
    if concern.packages_absent:
        yield {
            "name": f"{concern.name}: packages that must not be there",
            "ansible.builtin.apt": {"name": list(concern.packages_absent), "state": "absent"},
        }
    for user in concern.users:
        arguments = {"system": user.system, "comment": user.comment, "home": user.home, "shell": user.shell}
        yield {
            "name": f"{concern.name}: user {user.name}",
            "ansible.builtin.user": {
                "name": user.name,
                "create_home": user.create_home,
                "groups": list(user.groups),
                "append": True,
                **arguments,
            },
        }
    for folder in concern.directories:
        yield {
            "name": f"{concern.name}: folder {folder.path}",
            "ansible.builtin.file": {
                "path": folder.path,
                "state": "directory",
                "owner": folder.owner,
                "group": folder.group,
                "mode": folder.mode,
            },
        }
    for file in concern.files:
        yield from _file(concern, file)
    for unit in concern.units:
        arguments = {"masked": True} if unit.masked else {"enabled": unit.enabled}
        state = "started" if unit.active and not unit.masked else "stopped"
        yield {
            "name": f"{concern.name}: unit {unit.name}",
            "ansible.builtin.systemd_service": {"name": unit.name, "state": state, **arguments},
        }


def _file(concern: Concern, file: HostFile) -> Iterator[Task]:
    parent, _, _ = file.path.rpartition("/")
    told = [*file.run, *(f"restart {unit}" for unit in file.restart), *(f"reload {unit}" for unit in file.notify)]
    if file.path.startswith("/etc/systemd/"):
        told.insert(0, "daemon-reload")
    if file.path.startswith("/etc/sysctl.d/"):
        told.append(f"sysctl {file.path}")
    validate = file.validate_command
    if parent not in _THERE:
        yield {"name": f"folder {parent}", "ansible.builtin.file": {"path": parent, "state": "directory"}}
    yield {
        "name": f"{concern.name}: {file.path}",
        "ansible.builtin.copy": {
            "dest": file.path,
            "src": f"{{{{ own }}}}{file.path}",
            "owner": file.owner,
            "group": file.group,
            "mode": file.mode,
            **({"validate": validate} if validate is not None and not set(validate) & _SHELL else {}),
        },
        "notify": told,
    }


def _handlers(host: HostPlan) -> Iterator[Task]:
    """In the order in which they have to run."""
    files = [file for concern in host.concerns.values() for file in concern.files]
    yield {"name": "daemon-reload", "ansible.builtin.systemd_service": {"daemon_reload": True}}
    for file in files:
        if file.path.startswith("/etc/sysctl.d/"):
            # a container refuses what is not its own
            command = {
                "ansible.builtin.command": {"argv": ["sysctl", "-e", "-q", "-p", file.path]},
                "failed_when": False,
            }
            yield {"name": f"sysctl {file.path}", **command}
    for command in dict.fromkeys(command for file in files for command in file.run):
        yield {"name": command, "ansible.builtin.shell": command}
    for word, units in (
        ("restart", dict.fromkeys(unit for file in files for unit in file.restart)),
        ("reload", dict.fromkeys(unit for file in files for unit in file.notify)),
    ):
        for unit in units:
            yield {
                "name": f"{word} {unit}",
                "ansible.builtin.systemd_service": {"name": unit, "state": f"{word}ed"},
            }
