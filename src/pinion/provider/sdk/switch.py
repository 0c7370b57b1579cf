"""`pinion:switch:Config`: all that a plan says about one switch."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from pinion.plan.model import SwitchPlan
from pinion.provider.sdk.provider import with_provider
from pinion.provider.shape import Shape
from pinion.provider.switch import IDENTITIES

_SHAPE = Shape(SwitchPlan, IDENTITIES)


class Config(pulumi.CustomResource):
    """The configuration of one switch: VLANs, front ports, gateways. *left* names what is on it and not ours."""

    left: pulumi.Output[Sequence[str]]

    def __init__(self, name: str, plan: SwitchPlan, *, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs: dict[str, object] = {**_SHAPE.properties(plan), "drift": None, "left": None}
        super().__init__("pinion:switch:Config", name, inputs, with_provider(opts))
