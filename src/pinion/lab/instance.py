"""A lab instance as its parts see it: the plan, the machines, where things lie, and what was asked of it."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pinion.lab.equipment import equipped, planned
from pinion.lab.errors import LabError
from pinion.lab.identity import Keys
from pinion.lab.layers import LayerStore
from pinion.lab.machine import Machine
from pinion.lab.parts import Forward, MachineNeeds, Part, merged
from pinion.lab.processes import Recorded
from pinion.lab.progress import Progress
from pinion.lab.recipes import BASE, SWITCH, LayerRecipe
from pinion.lab.state import InstanceState, cache_root, read_json, write_json
from pinion.lab.topology import Node, topology
from pinion.plan.model import DeviceKind, Plan

#: Loopback ports that forwards are chosen from: below the kernel's ephemeral ports (32768 and up), above the registered services in use.
_PORTS = range(20000, 30000)


class Lab:
    """One instance of the lab of *plan* with *parts*; *bare*: new disks come without the packages that their host's concerns want."""

    def __init__(
        self,
        plan: Plan,
        store: InstanceState,
        parts: Sequence[Part],
        progress: Progress | None = None,
        *,
        bare: bool = False,
    ) -> None:
        self.plan = plan
        self._bare = bare
        self.topology = topology(plan)
        self.store = store
        self.parts = tuple(parts)
        self.progress = progress or Progress()
        self.keys = Keys(store)
        self.layers = LayerStore(say=lambda name, text: self.progress.say(f"layer {name}", text))
        self.machines: Mapping[str, Machine] = {
            node.name: Machine(store, node.name, node) for node in self.topology.nodes
        }
        #: Raises when whoever runs this wants its long work to end.
        self.go_on: Callable[[], object] = lambda: None
        self._stage = threading.local()
        self._ports = threading.Lock()
        if not self.machines:
            raise LabError(
                f"site {plan.site}: no device has `platform: lab`, so there is nothing to make; use inventories/lab as an example"
            )

    # --- what parts use -----------------------------------------------------------------------------------------------

    @property
    def instance(self) -> str:
        """Name of the instance."""
        return self.store.name

    @property
    def state(self) -> Path:
        """The instance's state folder, 0700."""
        return self.store.root

    @property
    def cache(self) -> Path:
        """The cache of programs and layers, shared by all instances."""
        return cache_root()

    def layer(self, recipe: LayerRecipe) -> tuple[Path, ...]:
        """Lower folders of *recipe*'s layer, topmost first; builds it when it is missing."""
        return self.layers.ensure(recipe)

    def secret(self, name: str, length: int = 32) -> Path:
        """A random password in a 0600 file, made once."""
        return self.store.secret(name, length)

    def say(self, text: str) -> None:
        """A progress line under the name of the part that is at work; also the moment at which its long work may be ended."""
        self.go_on()
        self.progress.say(getattr(self._stage, "name", "lab"), text)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name this thread's work for `say`."""
        self._stage.name = name
        try:
            yield
        finally:
            self._stage.name = "lab"

    def forward_port(self, name: str) -> int:
        """The loopback port of forward *name*: chosen once per instance, another only when someone took it meanwhile."""
        with self._ports:
            record = self.state / "forwards.json"
            chosen = read_json(record)
            port = chosen.get(name)
            if isinstance(port, int) and (self._uplink_runs() or _free(port)):
                return port
            start = int(hashlib.sha256(f"{self.instance}/{name}".encode()).hexdigest(), 16)
            for step in range(len(_PORTS)):
                candidate = _PORTS[(start + step) % len(_PORTS)]
                if candidate not in chosen.values() and _free(candidate):
                    write_json(record, {**chosen, name: candidate})
                    return candidate
            raise LabError(f"forward {name}: no free loopback port in {_PORTS.start}-{_PORTS.stop - 1}")

    def _uplink_runs(self) -> bool:
        process = Recorded.read(self.store.uplink / "process.json")
        return process is not None and process.alive()

    # --- what the parts asked for -------------------------------------------------------------------------------------

    def needs(self) -> dict[str, MachineNeeds]:
        """What every machine needs, all parts together. `LabError` when a part names a machine that the plan lacks."""
        asked = self.asked()
        found = {}
        for node in self.topology.nodes:
            layer, default = _default(node)
            both = merged(
                node.name, layer, [default, *(needs[node.name] for needs in asked.values() if node.name in needs)]
            )
            found[node.name] = equipped(both, self._equipment(node.name))
        return found

    def _equipment(self, name: str) -> tuple[str, ...]:
        """A disk keeps what it was born with, whatever the plan says by now; a new one gets what the plan says."""
        born = self.machines[name].equipment()
        if born is not None:
            return born
        return () if self._bare else planned(self.plan, name)

    def asked(self) -> dict[str, Mapping[str, MachineNeeds]]:
        """Part name to its needs by machine."""
        asked = {part.name: part.needs(self) for part in self.parts}
        for name, needs in asked.items():
            if unknown := set(needs) - set(self.machines):
                raise LabError(
                    f"part {name}: no lab machine {', '.join(sorted(unknown))} in the plan of {self.plan.site}"
                )
        return asked

    def forwards(self) -> list[Forward]:
        """All parts' forwards."""
        return [forward for part in self.parts for forward in part.forwards(self)]


def _default(node: Node) -> tuple[LayerRecipe, MachineNeeds]:
    """What a machine is without any part: a switch has a data plane and no login of its own; any other has sshd."""
    if node.kind is DeviceKind.SWITCH:
        return SWITCH, MachineNeeds(nspawn=("--bind=/dev/net/tun",), sshd=False)
    return BASE, MachineNeeds()


def _free(port: int) -> bool:
    """Whether nobody listens on 127.0.0.1:*port*."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
