"""What the parts of a lab (NetBox, cluster, switch) say and do: one Protocol and the data that it exchanges.

A part never mounts, boots or wires anything: it says what its machines need, writes files into them before they boot and tells when they
are ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pinion.lab.errors import LabError
from pinion.lab.recipes import NODE, Bind, LayerRecipe
from pinion.lab.state import JsonValue

if TYPE_CHECKING:
    from pinion.lab.instance import Lab
    from pinion.lab.machine import Machine

__all__ = ["NESTED_CONTAINERS", "Bind", "Forward", "JsonValue", "LayerRecipe", "MachineNeeds", "Part", "merged"]


@dataclass(frozen=True)
class MachineNeeds:
    """What one part needs of one machine.

    *layer*: the file system; when two parts name different layers for one machine, one must be an ancestor of the other.
    *binds*: code and binaries of this machine, shown in the lab machine.
    *data*: folders in the machine that lie outside the overlay and survive `down` and a new image; made empty, root, 0755.
    *nspawn*: further flags of systemd-nspawn. *units* are enabled and *masks* masked before the boot.
    *sshd*: OpenSSH runs; a part that says False wins.
    *revision*: the part's own digest of what `provision` writes; when it changes, `up` restarts the running machine.
    *equipment*: packages that the disk is born with beside those of the parts' layers; in *layer* already.
    """

    layer: LayerRecipe | None = None
    binds: tuple[Bind, ...] = ()
    data: tuple[str, ...] = ()
    nspawn: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    sshd: bool = True
    revision: str = ""
    equipment: tuple[str, ...] = ()


#: containerd and a kubelet inside a machine: the flags that nesting takes, and their data outside the overlay (overlay on overlay is
#: refused by the kernel). Seen to work with containerd 1.7 and kubelet 1.34 on cgroup v1.
NESTED_CONTAINERS = MachineNeeds(
    layer=NODE,
    data=("/var/lib/containerd", "/var/lib/kubelet"),
    nspawn=(
        "--capability=all",
        "--drop-capability=CAP_SYS_TIME",  # the clock is this machine's, and everybody's
        "--bind=/dev/kmsg",
        "--system-call-filter=add_key keyctl bpf perf_event_open @keyring",
    ),
)


@dataclass(frozen=True)
class Forward:
    """A loopback port of this machine, chosen once, that leads to *host*:*port* as seen from inside *machine*'s namespace."""

    name: str
    machine: str
    host: str
    port: int


class Part(Protocol):
    """One part of the lab. Every method may be called again at any time, after any kill."""

    @property
    def name(self) -> str:
        """Short name, for ``--parts`` and progress lines."""

    def needs(self, lab: Lab) -> Mapping[str, MachineNeeds]:
        """By machine name, from the plan alone: pure and quick."""

    def prepare(self, lab: Lab) -> None:
        """Obtain and make what the machines need, before they boot; runs in a thread beside layer builds and other parts."""

    def provision(self, lab: Lab, machine: Machine) -> None:
        """Write into the machine's root, which is mounted but not booted. Called for each machine named in `needs`, before each boot."""

    def ready(self, lab: Lab, machine: Machine) -> str | None:
        """None when the part's work on this running machine is done and answers, else what it waits for. Polled."""

    def forwards(self, lab: Lab) -> Sequence[Forward]:
        """Loopback ports for the user's browser and tools."""

    def endpoints(self, lab: Lab) -> Mapping[str, JsonValue]:
        """What the part adds to ``endpoints.json``, once everything is ready. No secrets: paths of files that hold them."""


def merged(machine: str, default: LayerRecipe, needs: Sequence[MachineNeeds]) -> MachineNeeds:
    """All parts' needs of one machine as one; `LabError` when two layers do not lie on one line of descent."""
    layer = default
    for need in needs:
        if need.layer is None or need.layer in layer.chain:
            continue
        if layer not in need.layer.chain:
            raise LabError(
                f"{machine}: layers {layer.name} and {need.layer.name} do not build on each other; give one the other as an ancestor"
            )
        layer = need.layer
    return MachineNeeds(
        layer=layer,
        binds=tuple(dict.fromkeys(bind for need in needs for bind in need.binds)),
        data=tuple(dict.fromkeys(path for need in needs for path in need.data)),
        nspawn=tuple(dict.fromkeys(flag for need in needs for flag in need.nspawn)),
        units=tuple(dict.fromkeys(unit for need in needs for unit in need.units)),
        masks=tuple(dict.fromkeys(unit for need in needs for unit in need.masks)),
        sshd=all(need.sshd for need in needs),
        revision="\n".join(need.revision for need in needs),
    )
