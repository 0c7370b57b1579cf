"""Site to Plan: the one entry point. Pure: the same site gives the same plan, byte for byte, on any machine."""

from __future__ import annotations

from pinion.plan import fabric, flows, identity
from pinion.plan.addressing import host, vlans
from pinion.plan.cluster import cluster
from pinion.plan.context import HostContext
from pinion.plan.devices import Wiring, device_types, hosts, switch_device
from pinion.plan.hosts import host_concerns
from pinion.plan.model import (
    DeviceKind,
    DevicePlan,
    FlowPlan,
    HostPlan,
    Plan,
    PlatformPlan,
    RackPlan,
    RolloutPlan,
    VlanPlan,
)
from pinion.plan.routing import routing_policy
from pinion.plan.traffic import traffic_classes
from pinion.site import catalog as hardware
from pinion.site.allocation import natural
from pinion.site.catalog import Catalog
from pinion.site.model import GpuServer, ManagementHost, PiGroup, Site
from pinion.site.quantities import fraction

#: The login that an image (or the lab) prepares on every host; it may become root without a password.
SSH_USER = "pinion"


def plan(site: Site, catalog: Catalog | None = None) -> Plan:
    """Everything that follows from *site* with the given hardware *catalog* (by default the one that ships with Pinion).

    *site* must come from `pinion.site.loader`: a site that breaks its rules raises `KeyError`, `IndexError` or `ValueError` here.
    """
    known = catalog if catalog is not None else hardware.load()
    wiring = Wiring()
    found_vlans = vlans(site)
    found_hosts = hosts(site, known, wiring)
    switches = [switch_device(site, known, wiring, name) for name in sorted(site.switches, key=natural)]
    devices = (*switches, *found_hosts)
    staying = tuple(device for device in devices if not device.leaving)
    found_flows = flows.flows(site, staying)
    return Plan(
        site=site.site,
        region=site.region,
        description=site.description,
        racks=tuple(
            RackPlan(name=name, units=rack.units, description=rack.description, origin=f"racks.{name}")
            for name, rack in sorted(site.racks.items(), key=lambda item: natural(item[0]))
        ),
        vlans=found_vlans,
        traffic_classes=traffic_classes(site, known),
        device_types=device_types(site, known),
        platforms=tuple(
            PlatformPlan(slug=slug, name=known.platforms[slug].name, evidence=known.platforms[slug].evidence)
            for slug in sorted({device.platform for device in devices})
        ),
        devices=devices,
        switches=tuple(
            fabric.switch(site, known, wiring, device, found_vlans, flows.ending_at(found_flows, device))
            for device in switches
        ),
        flows=found_flows,
        hosts=_host_plans(site, known, staying, found_vlans, found_flows),
        rollout=RolloutPlan(
            canary=site.rollout.canary,
            second=fraction(site.rollout.second),
            limits={group.replace("-", "_"): most for group, most in site.rollout.limits.items()},
        ),
        cluster=cluster(site, staying, found_flows),
        authority=identity.authority(site, staying, found_vlans),
        routing=routing_policy(site),
    )


def _host_plans(
    site: Site,
    known: Catalog,
    devices: tuple[DevicePlan, ...],
    vlans: tuple[VlanPlan, ...],
    table: tuple[FlowPlan, ...],
) -> tuple[HostPlan, ...]:
    found = []
    for device in devices:
        if device.kind is DeviceKind.SWITCH:
            continue
        context = _context(site, known, device, devices, vlans, flows.ending_at(table, device))
        found.append(
            HostPlan(
                name=device.name,
                kind=device.kind,
                address=host(device.primary_address or ""),
                user=SSH_USER,
                # as Ansible spells group names
                groups=tuple(group.replace("-", "_") for group in context.groups),
                concerns=host_concerns(context),
                evidence=context.platform.evidence,
                origin=device.origin,
            )
        )
    return tuple(found)


def _group(device: DevicePlan) -> str:
    """The group of Pis that a Pi is one of."""
    return device.name.rpartition("-")[0]


def _context(
    site: Site,
    known: Catalog,
    device: DevicePlan,
    devices: tuple[DevicePlan, ...],
    vlans: tuple[VlanPlan, ...],
    ending: tuple[FlowPlan, ...],
) -> HostContext:
    stated: PiGroup | GpuServer | ManagementHost
    board = hat = server = None
    if device.kind is DeviceKind.PI:
        stated = site.pis[_group(device)]
        board = known.boards[stated.board]
        hat = known.hats[stated.hat] if stated.hat is not None else None
    else:
        stated = (
            site.gpu_servers[device.name]
            if device.kind is DeviceKind.GPU_SERVER
            else site.management_hosts[device.name]
        )
        server = known.servers[stated.profile]
    return HostContext(
        name=device.name,
        kind=device.kind,
        platform=known.platforms[device.platform],
        site=site,
        stated=stated,
        device=device,
        board=board,
        hat=hat,
        server=server,
        vlans=vlans,
        devices=devices,
        flows=ending,
        catalog=known,
    )
