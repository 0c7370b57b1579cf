"""`status`: what of an instance runs and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.parts import MachineNeeds, Part
from pinion.lab.state import InstanceState, JsonValue, read_json
from pinion.lab.uplink_process import uplink_process


@dataclass(frozen=True)
class PieceStatus:
    """One machine, part or process: *state* is ``up``, ``down`` or what it waits for."""

    name: str
    kind: str
    state: str
    address: str = ""
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        """Whether it is up and answers."""
        return self.state == "up"

    def as_json(self) -> JsonValue:
        """For ``--json``."""
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "address": self.address,
            "uptime": round(self.seconds),
        }


def status(lab: Lab) -> Sequence[PieceStatus]:
    """The state of every machine, part and of the uplink, asked of each now."""
    needs = lab.needs()
    found = [_machine(machine, needs[name]) for name, machine in lab.machines.items()]
    answering = {piece.name for piece in found if piece.well}
    pairs = [(part, name) for part in lab.parts for name in lab.asked()[part.name]]
    found += [
        PieceStatus(f"{part.name} on {name}", "part", _part(lab, part, name) if name in answering else "down")
        for part, name in pairs
    ]
    process = uplink_process(lab.store)
    found.append(
        PieceStatus("uplink", "process", "up" if process else "down", "127.0.0.1", process.age() if process else 0.0)
    )
    return found


def _machine(machine: Machine, needs: MachineNeeds) -> PieceStatus:
    address = (machine.node.address if machine.node else None) or ""
    process = machine.process
    if process is None:
        return PieceStatus(machine.name, machine.role, "down", address)
    try:
        waiting = machine.waits_for(needs)
    except LabError:
        waiting = "down"
    return PieceStatus(machine.name, machine.role, f"waits for {waiting}" if waiting else "up", address, process.age())


def _part(lab: Lab, part: Part, machine: str) -> str:
    try:
        waiting = part.ready(lab, lab.machines[machine])
    except LabError as error:
        return str(error)
    return f"waits for {waiting}" if waiting else "up"


def running(store: InstanceState) -> bool:
    """Whether any machine of the instance runs."""
    return any(Machine(store, name).process for name in store.machine_names())


def chosen_parts(store: InstanceState) -> list[str] | None:
    """The parts that the instance was last brought up with; None when it never was."""
    parts = read_json(store.record).get("parts")
    return [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else None
