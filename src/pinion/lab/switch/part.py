"""The lab's switches as a part of the lab: one machine each, with Open vSwitch and the switch program."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pinion.lab.parts import Bind, Forward, JsonValue, MachineNeeds
from pinion.lab.recipes import SWITCH
from pinion.lab.switch import initial
from pinion.lab.switch.nos.users import matches
from pinion.plan.model import DeviceKind

if TYPE_CHECKING:
    from pinion.lab.instance import Lab
    from pinion.lab.machine import Machine
    from pinion.plan.model import SwitchPlan

UNIT = "pinion-switch.service"
_PROGRAM = Path(__file__).parent / "nos"
_UNIT_TEXT = Path(__file__).parent / "files" / UNIT
_ETC, _FLASH, _RUN = "/etc/pinion-switch", "/var/lib/pinion-switch", "/run/pinion-switch"


class SwitchPart:
    """See `pinion.lab.parts.Part`."""

    name = "switch"

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """See `Part.needs`: Open vSwitch, our program, a folder for the saved configuration."""
        revision = _revision()
        return {
            node.name: MachineNeeds(
                layer=SWITCH,
                binds=(Bind(_PROGRAM, "/usr/lib/pinion/nos"),),
                data=(_FLASH,),
                units=(UNIT, "openvswitch-switch.service"),
                sshd=False,
                revision=revision,
            )
            for node in lab.topology.nodes
            if node.kind is DeviceKind.SWITCH
        }

    def prepare(self, lab: Lab) -> None:
        """See `Part.prepare`: the password of each switch."""
        for name in self.needs(lab):
            _password(lab, name)

    def provision(self, lab: Lab, machine: Machine) -> None:
        """See `Part.provision`: settings, users, host key, unit, and the management address in the saved configuration."""
        switch = _plan(lab, machine.name)
        machine.write(f"/etc/systemd/system/{UNIT}", _UNIT_TEXT.read_text(encoding="utf-8"))
        machine.write(f"{_ETC}/host_key", machine.host_key.read_bytes(), mode=0o600)
        machine.write(
            f"{_ETC}/switch.json",
            initial.settings(
                ports=[port.name for port in switch.ports],
                management=switch.management_interface,
                flash=_FLASH,
                run=_RUN,
                users=f"{_ETC}/users.json",
                host_key=f"{_ETC}/host_key",
                data_plane="ovs",
                everywhere=True,
                port=switch.management_port,
            ),
        )
        password = _password(lab, machine.name).read_text(encoding="ascii").strip()
        if not _knows(machine.path(f"{_ETC}/users.json"), password):
            machine.write(f"{_ETC}/users.json", initial.users(password), mode=0o600)
        _provision_startup(machine.data_path(_FLASH), machine.name, switch)

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        """See `Part.ready`: the program listens and its data plane holds the configuration."""
        del lab
        shown = machine.run(["systemctl", "show", "--property=ActiveState,StatusText", UNIT], check=False).stdout
        found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        if found.get("ActiveState") != "active":
            return f"{UNIT} ({found.get('ActiveState', 'unknown')})"
        status = found.get("StatusText", "")
        return None if status == initial.IN_STEP else status or "its data plane"

    def forwards(self, lab: Lab) -> Sequence[Forward]:
        """See `Part.forwards`: none; a switch is reached from the management host."""
        del lab
        return ()

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """See `Part.endpoints`: ``switches.<name>``."""
        switches: dict[str, JsonValue] = {}
        for name in self.needs(lab):
            switch = _plan(lab, name)
            switches[name] = {
                "host": switch.management_address.partition("/")[0],
                "port": switch.management_port,
                "user": initial.USER,
                "password_file": str(_password(lab, name)),
                "known_hosts": str(lab.keys.known_hosts),
            }
        return {"switches": switches}


def _plan(lab: Lab, name: str) -> SwitchPlan:
    return next(switch for switch in lab.plan.switches if switch.name == name)


def _password(lab: Lab, name: str) -> Path:
    return lab.secret(f"switch-{name}")


def _revision() -> str:
    """A digest of the program and its unit: a running switch is restarted when they change."""
    digest = hashlib.sha256(_UNIT_TEXT.read_bytes())
    for path in sorted(_PROGRAM.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _knows(users: Path, password: str) -> bool:
    """True when the users file already admits our user with *password*: its salted text would differ at every boot."""
    try:
        known = json.loads(users.read_text(encoding="utf-8"))["users"][initial.USER]
    except (OSError, ValueError, KeyError):
        return False
    return matches(password, str(known))


def _provision_startup(flash: Path, name: str, switch: SwitchPlan) -> None:
    path = flash / "startup-config"
    saved = path.read_text(encoding="utf-8") if path.exists() else None
    text = initial.startup_config(
        name,
        [port.name for port in switch.ports],
        switch.management_interface,
        [switch.management_address],
        saved,
    )
    if text == saved:
        return
    draft = path.with_name(".startup-config.provision")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
