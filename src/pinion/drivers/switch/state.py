"""What a switch that holds a plan shows: the plan's state without what is as the switch has it anyway."""

from __future__ import annotations

from pinion.drivers.switch.dialects import dialect
from pinion.drivers.switch.qos import canonical
from pinion.plan.model import SwitchPlan, SwitchState
from pinion.plan.switch_state import switch_state


def wanted(plan: SwitchPlan) -> SwitchState:
    """The state of a switch that holds *plan* and nothing else, as a parser reads it."""
    state = switch_state(plan)
    return state.model_copy(update={"qos": canonical(state.qos, dialect(plan).defaults)})
