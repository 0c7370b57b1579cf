"""The switch systems as text: what writes a state in the words of each, and what reads it. Pure; imports no library of a driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pinion.drivers.switch.eos_parser import parse as parse_eos
from pinion.drivers.switch.eos_qos_parser import TRAFFIC_CLASSES as EOS_TRAFFIC_CLASSES
from pinion.plan.model import SwitchPlan, SwitchState
from pinion.render.eos import eos_config


@dataclass(frozen=True, slots=True)
class Dialect:
    """One switch system. *write* makes its configuration text of a state, *parse* reads such text.

    *traffic_classes* has the traffic class of the packets of each priority (DSCP / 8), 0 to 7, unless told.
    """

    write: Callable[[SwitchState], str]
    parse: Callable[[str], SwitchState]
    traffic_classes: tuple[int, ...]


_DIALECTS = {"eos": Dialect(eos_config, parse_eos, EOS_TRAFFIC_CLASSES)}


def dialect(plan: SwitchPlan) -> Dialect:
    """The dialect of the switch of *plan*."""
    return _DIALECTS[plan.driver]
