"""Resource classes for Pulumi programs.

    from pinion.drivers.netbox import site_records
    from pinion.plan import plan
    from pinion.provider import sdk

    sdk.netbox.Site("lab", site_records(plan(site)))

Where NetBox and the cluster are and how to log in comes from the stack's configuration (`netbox:url`, `netbox:token`,
`switch:username`, …, see `pinion.provider.settings.STACK_KEYS`) through one
`Provider`, which is made when the first resource needs it; or pass ``opts=ResourceOptions(provider=Provider("other", …))``.
"""

from pinion.provider.sdk import cluster, netbox, switch
from pinion.provider.sdk.provider import Provider, stack_provider

__all__ = ["Provider", "cluster", "netbox", "stack_provider", "switch"]
