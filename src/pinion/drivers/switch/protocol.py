"""The Driver for switches: what every switch system's driver does."""

from __future__ import annotations

from typing import Protocol

from pinion.drivers.switch.diff import SwitchDiff
from pinion.plan.model import SwitchPlan, SwitchState


class SwitchDriver(Protocol):
    """One switch. Every call logs in by itself, so there is nothing to close and calls may come from several threads.

    Each raises a `pinion.drivers.switch.errors.SwitchError`. Any may be killed at any moment and called again: the switch then holds
    either the old or the new configuration and can be logged in to.
    """

    def read(self) -> SwitchState:
        """What the switch holds inside our scope. Changes nothing."""

    def diff(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """What `apply` would change. Changes nothing."""

    def apply(self, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
        """Make the switch hold *want*, proved by a fresh login and saved; return what differed (empty: nothing was touched).

        *previous* is the plan that was applied before: what only it lists is removed.
        """

    def undo(self, had: SwitchPlan) -> SwitchDiff:
        """Take away what *had* put on the switch; return what was removed, and in `left` what is not ours and stayed."""
