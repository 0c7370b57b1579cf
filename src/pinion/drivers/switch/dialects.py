"""The switch systems as text: what writes a state in the words of each, and what reads it. Pure; imports no library of a driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pinion.drivers.switch import cumulus_parser, eos_parser, eos_qos_parser
from pinion.drivers.switch.qos import QosDefaults
from pinion.plan.model import SwitchPlan, SwitchState
from pinion.render.cumulus import cumulus_config
from pinion.render.eos import eos_config


@dataclass(frozen=True, slots=True)
class Dialect:
    """One switch system. *write* makes its configuration text of a state, *parse* reads such text.

    *defaults* is what it does with traffic classes unless told. *suffix* ends the names of files with such text.
    """

    write: Callable[[SwitchState], str]
    parse: Callable[[str], SwitchState]
    defaults: QosDefaults
    suffix: str


_DIALECTS = {
    "eos": Dialect(eos_config, eos_parser.parse, eos_qos_parser.DEFAULTS, ".cfg"),
    "cumulus": Dialect(cumulus_config, cumulus_parser.parse, cumulus_parser.DEFAULTS, ".yaml"),
}


def dialect(plan: SwitchPlan) -> Dialect:
    """The dialect of the switch of *plan*."""
    return _DIALECTS[plan.driver]
