"""The files that tell switches and NICs what to do with traffic classes: as the plan renders them, or from a folder.

In a folder a switch's configuration is ``switches/NAME.cfg`` (EOS) or ``switches/NAME.yaml`` (NVUE), and a host's files stand below
``hosts/NAME`` as on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pinion.drivers.switch.dialects import dialect
from pinion.plan.concerns import nic_tuning
from pinion.plan.model import Plan, SwitchPlan
from pinion.plan.switch_state import switch_state

#: Where a NIC's name and MTU at boot are, below a host's folder.
LINKS = "etc/systemd/network"
#: Where the settings of a host's RDMA NICs are, below its folder.
NIC_SETTINGS = nic_tuning.CONFIG_FILE.removeprefix("/")


@dataclass(frozen=True, slots=True)
class Artefact:
    """One file: its *path* below the folder, and its *text*."""

    path: str
    text: str


def switch_path(switch: SwitchPlan) -> str:
    """Where the configuration of *switch* is."""
    return f"switches/{switch.name}{dialect(switch).suffix}"


def host_path(name: str, file: str) -> str:
    """Where *file* of the host *name* is."""
    return f"hosts/{name}/{file}"


def rendered(plan: Plan) -> tuple[Artefact, ...]:
    """All files of *plan* that have a part in the traffic classes."""
    found = [Artefact(switch_path(switch), dialect(switch).write(switch_state(switch))) for switch in plan.switches]
    for host in plan.hosts:
        concern = host.concerns.get(nic_tuning.NAME)
        for file in concern.files if concern is not None else ():
            path = file.path.removeprefix("/")
            if path == NIC_SETTINGS or path.startswith(f"{LINKS}/"):
                found.append(Artefact(host_path(host.name, path), file.content))
    return tuple(found)


def in_folder(folder: Path, plan: Plan) -> tuple[Artefact, ...]:
    """The files below *folder* that `rendered` would have of *plan*. `OSError` names one that is missing or cannot be read."""
    return tuple(
        Artefact(known.path, (folder / known.path).read_text(encoding="utf-8", errors="replace"))
        for known in rendered(plan)
    )


def write(folder: Path, plan: Plan) -> tuple[Path, ...]:
    """Write `rendered` below *folder*; the paths. `OSError` when that cannot be done."""
    written = []
    for artefact in rendered(plan):
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(artefact.text, encoding="utf-8")
        written.append(path)
    return tuple(written)
