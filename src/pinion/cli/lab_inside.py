"""`pinion lab exec` and `ssh`: inside a running lab. They stand before every command that reaches one, so they import and read little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from pinion.cli.lab_arguments import INSTANCE, SITE, state, told
from pinion.lab.errors import LabError
from pinion.lab.operator import replace_process
from pinion.lab.recipes import USER
from pinion.lab.state import InstanceState, JsonValue, read_json


@click.command(
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  pinion lab exec -- pulumi preview
  pinion lab exec --machine pi-01 -- ping -c1 pi-02
""",
)
@SITE
@INSTANCE
@click.option("--machine", metavar="NAME", help="Whose network position to take.  [default: the management host]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(site: str, instance: str | None, machine: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, with this machine's files, where the management host is in the network. Its exit code is passed on."""
    with told():
        store = state(site, instance)
        replace_process(store, machine or _management_host(store), command)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  pinion lab ssh pi-01
  pinion lab ssh nv-1 -- systemctl status kubelet
Like a serial console, it works before the switch has any configuration.
""",
)
@SITE
@INSTANCE
@click.argument("machine")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(site: str, instance: str | None, machine: str, command: tuple[str, ...]) -> None:
    """Log in to MACHINE as user pinion, from its own network namespace."""
    with told():
        store = state(site, instance)
        names = store.machine_names()
        device = next((one for one in _devices(store) if one["name"] == machine), None) if machine in names else None
        if device is None:
            raise LabError(f"{machine}: no such machine; there are {', '.join(names) or 'none'}")
        position, options = machine, ["-o", f"HostKeyAlias={machine}"]
        login = f"{USER}@127.0.0.1"
        address = str(device["primary_address"] or "").partition("/")[0]
        if device["kind"] == "switch" and address:
            # a switch has its own users and password, and answers on its management address
            position, options = _management_host(store), []
            login = f"{_switch_user(store, machine)}@{address}"
        keys = store.ssh
        trust = [
            f"UserKnownHostsFile={keys / 'known_hosts'}",
            "StrictHostKeyChecking=yes",
            "GlobalKnownHostsFile=/dev/null",
        ]
        flags = [flag for option in trust for flag in ("-o", option)]
        replace_process(
            store, position, ["ssh", "-F", "none", "-i", str(keys / "id_ed25519"), *flags, *options, login, *command]
        )


def _devices(store: InstanceState) -> Sequence[Mapping[str, JsonValue]]:
    """The devices of the plan that the instance was last brought up with, as that lies there."""
    found = read_json(store.plan).get("devices")
    if not isinstance(found, list):
        raise LabError(f"instance {store.name}: never brought up by this version; bring it up: pinion lab up")
    return [device for device in found if isinstance(device, dict)]


def _management_host(store: InstanceState) -> str:
    """Name of the machine whose position an operator takes."""
    for device in _devices(store):
        if device["lab"] and device["kind"] == "management-host":
            return str(device["name"])
    raise LabError(f"instance {store.name}: its plan has no management host in the lab; name a machine with --machine")


def _switch_user(store: InstanceState, name: str) -> str:
    """The login of a switch; its password is in the file that ``endpoints.json`` names."""
    switches = read_json(store.endpoints).get("switches")
    entry = switches.get(name) if isinstance(switches, dict) else None
    if not isinstance(entry, dict):
        raise LabError(f"{name}: its command line does not run; bring it up: pinion lab up --parts switch")
    click.echo(f"password: see {entry.get('password_file')}", err=True)
    return str(entry.get("user"))
