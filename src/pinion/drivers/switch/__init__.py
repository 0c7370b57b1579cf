"""Switches: read what one holds, say how that differs from the plan, make it so with commit and confirmation, or undo it.

The only package that uses netmiko; it is imported when a driver is opened.
"""

from __future__ import annotations

from typing import Literal

from pinion.drivers.switch.access import SwitchAccess
from pinion.drivers.switch.diff import Change, SwitchDiff, compare, removal
from pinion.drivers.switch.errors import (
    CommandRefusedError,
    HostKeyError,
    LoginRefusedError,
    NoAnswerError,
    NotConfirmedError,
    NotConvergedError,
    SwitchBusyError,
    SwitchError,
    SwitchUnreachableError,
)
from pinion.drivers.switch.protocol import SwitchDriver
from pinion.plan.model import PortState, SviState, SwitchState, VlanState

__all__ = [
    "Change",
    "CommandRefusedError",
    "HostKeyError",
    "LoginRefusedError",
    "NoAnswerError",
    "NotConfirmedError",
    "NotConvergedError",
    "PortState",
    "SviState",
    "SwitchAccess",
    "SwitchBusyError",
    "SwitchDiff",
    "SwitchDriver",
    "SwitchError",
    "SwitchState",
    "SwitchUnreachableError",
    "VlanState",
    "compare",
    "open_driver",
    "removal",
]


def open_driver(system: Literal["eos", "cumulus"], name: str, access: SwitchAccess) -> SwitchDriver:
    """The driver of the switch system *system* (`SwitchPlan.driver`) for the switch *name*. Does not connect yet.

    Raises `SwitchError` for a system that Pinion writes files for and does not log in to.
    """
    match system:
        case "eos":
            from pinion.drivers.switch.eos import EosDriver

            return EosDriver(name, access)
        case "cumulus":
            raise SwitchError(
                name,
                "Pinion does not log in to Cumulus Linux yet",
                hint="`pinion fabric write` has the file for `nv config patch`; `pinion fabric check --from` checks what is there",
            )
