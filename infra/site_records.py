"""The site's records in NetBox: one resource for the site, one a VLAN, one a device."""

from __future__ import annotations

import pulumi

from pinion.drivers.netbox import device_record, site_records, vlan_record
from pinion.plan import Plan
from pinion.plan.model import DeviceKind
from pinion.provider import sdk


class SiteRecords(pulumi.ComponentResource):
    """Everything that NetBox knows of a site. Switches come before the devices that are cabled to them."""

    def __init__(self, plan: Plan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("pinion:infra:SiteRecords", plan.site, None, opts)
        own = pulumi.ResourceOptions(parent=self)
        site = sdk.netbox.Site(plan.site, site_records(plan), origin="site", opts=own)
        after_site = pulumi.ResourceOptions(parent=self, depends_on=[site])
        vlans = [
            sdk.netbox.Vlan(vlan.name, vlan_record(plan, vlan.name), origin=vlan.origin, opts=after_site)
            for vlan in plan.vlans
        ]
        after_vlans = pulumi.ResourceOptions(parent=self, depends_on=vlans)
        switches = [
            sdk.netbox.Device(device.name, device_record(plan, device.name), origin=device.origin, opts=after_vlans)
            for device in plan.devices
            if device.kind is DeviceKind.SWITCH
        ]
        after_switches = pulumi.ResourceOptions(parent=self, depends_on=[*vlans, *switches])
        for device in plan.devices:
            if device.kind is not DeviceKind.SWITCH:
                sdk.netbox.Device(
                    device.name, device_record(plan, device.name), origin=device.origin, opts=after_switches
                )
        self.register_outputs({})
