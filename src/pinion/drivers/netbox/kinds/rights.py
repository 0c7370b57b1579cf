"""What NetBox must allow the driver."""

from __future__ import annotations

from pinion.drivers.netbox.kinds.table import KINDS, MARKED_KINDS

#: Kinds that may hang on what Pinion makes, in NetBox 4.7: they are asked for before anything is deleted. What is asked comes from the
#: server's own schema; this list only says which rights that takes. A test compares it with the schema.
DEPENDENTS = (
    "circuits.circuitgroupassignment", "circuits.circuittermination", "circuits.virtualcircuittermination",
    "dcim.consoleport", "dcim.consoleporttemplate", "dcim.consoleserverport", "dcim.consoleserverporttemplate",
    "dcim.coolingfeed", "dcim.coolingintake", "dcim.coolingintaketemplate", "dcim.coolingoutflow",
    "dcim.coolingoutflowtemplate", "dcim.coolingsource", "dcim.devicebay", "dcim.devicebaytemplate", "dcim.frontport",
    "dcim.frontporttemplate", "dcim.interfacetemplate", "dcim.inventoryitem", "dcim.inventoryitemtemplate", "dcim.location",
    "dcim.module", "dcim.modulebay", "dcim.modulebaytemplate", "dcim.modulebaytype", "dcim.moduletype", "dcim.powerfeed",
    "dcim.poweroutlet", "dcim.poweroutlettemplate", "dcim.powerpanel", "dcim.powerport", "dcim.powerporttemplate",
    "dcim.rackreservation", "dcim.racktype", "dcim.rearport", "dcim.rearporttemplate", "dcim.virtualchassis",
    "dcim.virtualdevicecontext", "extras.imageattachment", "extras.journalentry", "ipam.fhrpgroupassignment",
    "ipam.service", "tenancy.contactassignment", "virtualization.cluster", "virtualization.virtualmachine",
    "vpn.l2vpntermination", "vpn.tunneltermination", "wireless.wirelesslan", "wireless.wirelesslink",
)  # fmt: skip


def permissions() -> list[dict[str, object]]:
    """The least that the driver's NetBox user needs, as NetBox object permissions.

    Tags and custom fields are made once and changed never again, so nobody needs to delete them with this token.
    """
    return [
        {
            "description": "Make, change and remove what a site file declares",
            "object_types": sorted(kind.content_type for kind in MARKED_KINDS),
            "actions": ["view", "add", "change", "delete"],
        },
        {
            "description": "Make the tag and the custom fields that say what is Pinion's",
            "object_types": sorted(kind.content_type for kind in KINDS if not kind.marked),
            "actions": ["view", "add"],
        },
        {
            "description": "See what hangs on an object before it is deleted",
            "object_types": list(DEPENDENTS),
            "actions": ["view"],
        },
    ]
