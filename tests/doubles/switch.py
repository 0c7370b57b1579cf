"""A switch in memory, for unit tests of whatever uses a switch: the Protocol of the real drivers, proved by the same contract suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock

from pinion.drivers.switch.diff import SwitchDiff, compare, emptied, expected
from pinion.drivers.switch.errors import NotConfirmedError, SwitchError
from pinion.plan.model import PortState, SwitchPlan, SwitchState, port_order


class MemorySwitch:
    """One switch that starts as from the factory: *ports* shut, no VLAN. Its drivers share it, as logins share a real one."""

    def __init__(self, name: str, ports: Iterable[str]) -> None:
        self.name = name
        self._lock = RLock()
        self._state = SwitchState(
            ports=tuple(PortState(name=port, enabled=False) for port in sorted(ports, key=port_order))
        )
        self._failures: list[SwitchError] = []
        self._goes_back = False

    def driver(self) -> MemoryDriver:
        """A driver for this switch."""
        return MemoryDriver(self)

    @property
    def state(self) -> SwitchState:
        """What the switch holds now."""
        return self._state

    def edit(self, change: Callable[[SwitchState], SwitchState]) -> None:
        """Change the switch by hand; *change* gets its state and returns the new one."""
        with self._lock:
            self._state = change(self._state)

    def fail_next(self, error: SwitchError) -> None:
        """Let the next call of any driver raise *error*, before it does anything. Several add up."""
        self._failures.append(error)

    def go_back_next(self) -> None:
        """Let the next change be undone just before it is confirmed, as by a commit timer that runs out."""
        self._goes_back = True

    def _enter(self) -> None:
        if self._failures:
            raise self._failures.pop(0)

    def _converge(self, want: SwitchPlan, previous: SwitchPlan | None) -> SwitchDiff:
        with self._lock:
            self._enter()
            diff = compare(self._state, want, previous)
            if diff.empty:
                return diff
            unknown = {port.name for port in want.ports} - {port.name for port in self._state.ports}
            if unknown:
                raise SwitchError(
                    self.name,
                    f"Invalid input (at token 2: '{min(unknown)}')",
                    command=f"default interface {min(unknown)}",
                )
            if not self._goes_back:
                self._state = expected(self._state, want, previous)
            self._goes_back = False
            if wrong := compare(self._state, want, previous).changes:
                said = "; ".join(map(str, wrong[:5]))
                raise NotConfirmedError(
                    self.name, f"the switch undid the change before it was confirmed ({said})", hint="run again"
                )
            return diff

    def _read(self) -> SwitchState:
        with self._lock:
            self._enter()
            return self._state


class MemoryDriver:
    """The `SwitchDriver` of a `MemorySwitch`."""

    def __init__(self, switch: MemorySwitch) -> None:
        self._switch = switch

    def read(self) -> SwitchState:
        """See `SwitchDriver.read`."""
        return self._switch._read()

    def diff(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """See `SwitchDriver.diff`."""
        return compare(self.read(), want, previous)

    def apply(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """See `SwitchDriver.apply`."""
        return self._switch._converge(want, previous)

    def undo(self, had: SwitchPlan) -> SwitchDiff:
        """See `SwitchDriver.undo`."""
        return self.apply(emptied(had), had)
