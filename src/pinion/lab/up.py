"""`up`: bring an instance up, or on from wherever it is.

Invariants: one `up` or `down` of an instance at a time; what is already as it should be is left alone, so a second `up` changes nothing;
every step creates or adopts, so a killed `up` is simply run again.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from pinion.lab import apt, identity
from pinion.lab.errors import LabError
from pinion.lab.instance import Lab
from pinion.lab.machine import Machine
from pinion.lab.network import unwire, wire
from pinion.lab.parts import MachineNeeds, Part
from pinion.lab.preconditions import check_machine, raise_limits
from pinion.lab.processes import Recorded
from pinion.lab.progress import Progress
from pinion.lab.recipes import USER, LayerRecipe
from pinion.lab.state import InstanceState, JsonValue, lock, write_file, write_json
from pinion.lab.uplink_process import ensure_uplink
from pinion.lab.work import NotReachedError, Work

#: Seconds for a machine to boot: it takes about 2, and far longer where many share the processor.
_BOOT = 180.0
#: Seconds in which a machine that runs already must answer, or it is booted anew.
_ANSWER = 20.0
#: Seconds for a part to be ready on a booted machine.
_READY = 600.0
#: Seconds to wait for another `up` or `down`; a first `up` builds for 25 minutes.
_LOCK = 2400.0


@dataclass
class UpReport:
    """What `up` did: per machine ``booted``, ``reimaged`` or ``unchanged``; *changes* counts what it made, booted or rewrote."""

    instance: str
    machines: dict[str, str] = field(default_factory=dict)
    changes: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, JsonValue]:
        """For ``--json``."""
        machines: dict[str, JsonValue] = dict(sorted(self.machines.items()))
        return {
            "instance": self.instance,
            "machines": machines,
            "changes": self.changes,
            "seconds": round(self.seconds, 1),
        }


@contextlib.contextmanager
def holding(store: InstanceState, progress: Progress) -> Iterator[int]:
    """Hold the instance's lock, with a record of who holds it; gives the lock's descriptor."""

    def waiting(_seconds: float) -> None:
        progress.waits("lab", f"another up or down of {store.name}")

    with lock(store.root / "lock", timeout=_LOCK, waiting=waiting) as held:
        progress.waits("lab", None)
        Recorded.myself().write(store.busy)
        try:
            yield held
        finally:
            store.busy.unlink(missing_ok=True)


def up(lab: Lab, *, site: str = "") -> UpReport:
    """Bring *lab* up. *site* is the path of its site file, remembered for later commands. `LabError` tells everything that failed."""
    check_machine()
    raise_limits(lab.progress)
    lab.store.make()
    with holding(lab.store, lab.progress) as held:
        record: dict[str, JsonValue] = {
            "instance": lab.instance,
            "site": site,
            "parts": [part.name for part in lab.parts],
        }
        write_json(lab.store.record, record)
        return _Raising(lab, held).run()


class _Raising:
    """One run of `up`."""

    def __init__(self, lab: Lab, held: int) -> None:
        self._lab = lab
        self._held = held
        self._needs = lab.needs()
        self._asked = lab.asked()
        self._report = UpReport(lab.instance)
        self._guard = threading.Lock()
        ready = sum(len(needs) for needs in self._asked.values())
        self._layers: set[LayerRecipe] = {needs.layer for needs in self._needs.values() if needs.layer is not None}
        items = 2 + len(lab.parts) + len(self._layers) + len(lab.machines) + ready
        self._work = Work(lab.progress, items, give_up=lab.layers.stop_builders)
        lab.go_on = self._work.go_on

    def run(self) -> UpReport:
        """Start everything at once; each item waits for what it needs."""
        lab, work = self._lab, self._work
        changed = write_file(lab.store.plan, lab.plan.model_dump_json(indent=2))
        write_file(lab.store.hosts, identity.hosts_file(lab.topology), 0o644)
        lab.keys.make(lab.topology)
        self._retire()
        self._estimate()
        work.start("network", self._network)
        work.start("uplink", self._uplink)
        for part in lab.parts:
            work.start(f"prepare {part.name}", functools.partial(self._prepare, part))
        for layer in self._layers:
            work.start(f"layer {layer.folder}", functools.partial(lab.layers.ensure, layer))
        for machine in lab.machines.values():
            work.start(machine.name, functools.partial(self._bring, machine))
        for part in lab.parts:
            for name in self._asked[part.name]:
                work.start(f"{part.name} on {name}", functools.partial(self._await_part, part, lab.machines[name]))
        work.finish()
        self._changed(self._endpoints() or changed)
        lab.layers.prune()
        self._report.seconds = lab.progress.elapsed
        return self._report

    def _changed(self, count: int) -> None:
        with self._guard:
            self._report.changes += count

    def _waits(self, name: str, what: str) -> None:
        """Note what *name* waits for. Raises when it is to end because another item has failed."""
        self._work.go_on()
        self._lab.progress.waits(name, what)

    def _retire(self) -> None:
        """Stop machines that the plan no longer names; their disks stay until `purge`."""
        for name in set(self._lab.store.machine_names()) - set(self._lab.machines):
            if Machine(self._lab.store, name).stop() + unwire(self._lab.store, (name,), bridge=False):
                self._lab.progress.say(name, "stopped: no longer in the plan")
                self._changed(1)

    def _estimate(self) -> None:
        """Tell what has to be built first, and how long that takes."""
        missing = {layer.name: layer.minutes for recipe in self._layers for layer in self._lab.layers.missing(recipe)}
        if missing:
            effort = f"{sum(missing.values()):.0f} min of work on two cores"
            self._lab.progress.say(
                "layers", f"{', '.join(missing)} to be built once: {effort}; kept in {self._lab.layers.root}"
            )

    def _network(self) -> None:
        made = wire(self._lab.store, self._lab.topology)
        self._changed(made)
        if made:
            self._lab.progress.say("network", f"{made} namespaces and links made")

    def _uplink(self) -> None:
        self._work.need(["network"])
        self._changed(ensure_uplink(self._lab, self._held))

    def _prepare(self, part: Part) -> None:
        with self._lab.stage(part.name):
            self._lab.progress.waits(f"prepare {part.name}", "its files and programs")
            part.prepare(self._lab)

    def _files(self, machine: Machine, needs: MachineNeeds) -> dict[str, identity.MachineFile]:
        keys, topology = self._lab.keys, self._lab.topology
        return identity.machine_files(
            topology,
            topology.node(machine.name),
            instance=self._lab.instance,
            authorized_key=keys.public(keys.private),
            host_key=keys.host_key(machine.name).read_text(),
            mirrors=apt.machine_mirrors(),
            sshd=needs.sshd,
        )

    def _bring(self, machine: Machine) -> None:
        """Have one machine run as the plan and the parts want it."""
        needs, progress = self._needs[machine.name], self._lab.progress
        parts = [part for part in self._lab.parts if machine.name in self._asked[part.name]]
        self._work.need(["network"])
        if machine.booted_with() == machine.specification(needs) and self._adopt(machine, needs):
            done = "unchanged"
        else:
            if machine.stop():
                progress.say(machine.name, "stopped: to be booted anew")
            progress.waits(machine.name, "layers and preparations")
            layers = [f"layer {needs.layer.folder}"] if needs.layer else []
            self._work.need([*(f"prepare {part.name}" for part in parts), *layers])
            started = time.monotonic()
            done = self._boot(machine, needs, parts)
            self._changed(1)
            machine.wait(needs, _BOOT, functools.partial(self._waits, machine.name))
            progress.say(machine.name, f"{done}, answers after {time.monotonic() - started:.1f} s")
        with self._guard:
            self._report.machines[machine.name] = done

    def _adopt(self, machine: Machine, needs: MachineNeeds) -> bool:
        """Bring the files of a running machine up to date; whether it answers, so that it may stay as it is."""
        try:
            changed = machine.identify(self._files(machine, needs))
            if any(path.startswith("/etc/systemd/network/") for path in changed):
                machine.run(["networkctl", "reload"])
            machine.wait(needs, _ANSWER, functools.partial(self._waits, machine.name))
        except NotReachedError:
            raise
        except LabError as error:
            self._lab.progress.say(machine.name, f"does not answer: {str(error).splitlines()[0]}")
            return False
        self._changed(len(changed))
        return True

    def _boot(self, machine: Machine, needs: MachineNeeds, parts: list[Part]) -> str:
        """Mount, write, boot. Returns what was done."""
        known = (machine.folder / "image.json").exists()
        fresh = machine.mount(needs, self._lab.layers)
        machine.identify(self._files(machine, needs))
        for part in parts:
            with self._lab.stage(part.name):
                part.provision(self._lab, machine)
        machine.enable(needs)
        machine.boot(needs, self._held)
        return "reimaged" if fresh and known else "booted"

    def _await_part(self, part: Part, machine: Machine) -> None:
        """Poll the part until it is ready on the machine."""
        name = f"{part.name} on {machine.name}"
        self._work.need([machine.name, "uplink"])
        started = time.monotonic()
        with self._lab.stage(part.name):
            while waiting := part.ready(self._lab, machine):
                self._waits(name, waiting)
                if time.monotonic() - started > _READY:
                    raise LabError(
                        f"still waits for {waiting} after {_READY:.0f} s; see pinion lab logs {machine.name}"
                    )
                time.sleep(0.5)
        if (took := time.monotonic() - started) > 1:
            self._lab.progress.say(name, f"ready after {took:.1f} s")

    def _endpoints(self) -> bool:
        """Write ``endpoints.json``: where everything answers, and which files hold the credentials."""
        lab = self._lab
        value: dict[str, JsonValue] = {
            "instance": lab.instance,
            "site": lab.plan.site,
            "ssh": {"key": str(lab.keys.private), "known_hosts": str(lab.keys.known_hosts), "user": USER},
        }
        for part in lab.parts:
            with lab.stage(part.name):
                value.update(part.endpoints(lab))
        return write_json(lab.store.endpoints, value)
