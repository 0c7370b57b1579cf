"""The ToR switches: one resource a switch, each with its whole declared scope."""

from __future__ import annotations

import pulumi

from pinion.plan import Plan
from pinion.provider import sdk


class Fabric(pulumi.ComponentResource):
    """VLANs, ports and gateways of every ToR switch of a site."""

    def __init__(self, plan: Plan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pinion:infra:Fabric", plan.site, None, opts)
        for switch in plan.switches:
            sdk.switch.Config(switch.name, switch, opts=pulumi.ResourceOptions(parent=self))
        self.register_outputs({})
