"""The ToR switches: one resource a switch, each with its whole declared scope."""

from __future__ import annotations

import pulumi

from pinion.plan import Plan
from pinion.provider import sdk


class Fabric(pulumi.ComponentResource):
    """VLANs, ports and gateways of every ToR switch of a site.

    Attributes:
        configured: comes when every switch holds its configuration; in a preview, when the preview is past them, and false if one of them
            is yet to be configured for the first time.
    """

    def __init__(self, plan: Plan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pinion:infra:Fabric", plan.site, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        switches = [sdk.switch.Config(switch.name, switch, opts=own) for switch in plan.switches]
        # what is on a switch and not ours is unknown until somebody has looked
        known = pulumi.Output.all(*(switch.left for switch in switches)).is_known()
        # a resource's URN is known when it is done, unlike its outputs in a preview too
        self.configured = pulumi.Output.all(*(switch.urn for switch in switches)).apply(lambda _: known)
        self.register_outputs({})
