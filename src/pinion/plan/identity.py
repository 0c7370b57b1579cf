"""Who vouches for a site's hosts, and under which names: what `site_ca`, `identity` and the operator's machine share. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_interface

from pinion.plan.model import AuthorityPlan, DeviceKind, DevicePlan, VlanPlan
from pinion.site.allocation import natural
from pinion.site.concerns import PRIVATE_DOMAIN, Identity
from pinion.site.model import Purpose, Site
from pinion.site.quantities import seconds


def domain(site: Site) -> str:
    """The domain of the hosts' names: as stated, else ``<site>.internal``."""
    stated = site.concerns.identity
    return (stated.domain if stated is not None else None) or f"{site.site}.{PRIVATE_DOMAIN}"


def lifetime(site: Site) -> int:
    """How long a certificate is good, in seconds: as stated for hosts, else as `identity` has it where it is stated."""
    stated = site.concerns.identity
    return int(seconds((stated or Identity()).lifetime))


def networks(vlans: Iterable[VlanPlan]) -> tuple[str, ...]:
    """The prefixes whose addresses certificates may name: all but those for RDMA, where nobody asks for a certificate."""
    return tuple(prefix.prefix for vlan in vlans if vlan.purpose != Purpose.RDMA for prefix in vlan.prefixes)


def names(site: Site, device: DevicePlan, vlans: Iterable[VlanPlan]) -> tuple[str, ...]:
    """What the certificate of *device* is for: its name in the site's domain, then its addresses in `networks`, in order."""
    rdma = {vlan.name for vlan in vlans if vlan.purpose == Purpose.RDMA}
    addresses = (
        str(ip_interface(text).ip)
        for interface in device.interfaces
        if interface.untagged_vlan is not None and interface.untagged_vlan not in rdma
        for text in interface.addresses
    )
    return (subject(site, device.name), *dict.fromkeys(addresses))


def subject(site: Site, name: str) -> str:
    """What the certificate of the host *name* is for, first of all: its name in the site's domain."""
    return f"{name}.{domain(site)}"


def subjects(site: Site, devices: Iterable[DevicePlan]) -> tuple[str, ...]:
    """The subjects of all hosts that stay; the authority renews for these alone."""
    kinds = (DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST)
    return tuple(
        subject(site, device.name)
        for device in devices
        if device.kind in kinds and device.name not in site.decommissioned
    )


def issuer(site: Site, name: str) -> str:
    """Whose provisioner signs for the host *name*: its own where the site runs its authority; elsewhere ours is all that we know of, ''."""
    stated = site.concerns.identity
    elsewhere = stated is not None and stated.authority is not None
    return "" if elsewhere else subject(site, name)


def authority_host(site: Site) -> str | None:
    """The management host that runs the site's authority: the first by name. None when the site does not run one."""
    if site.concerns.site_ca is None or not site.management_hosts:
        return None
    return min(site.management_hosts, key=natural)


def authority_url(site: Site, devices: Iterable[DevicePlan]) -> str | None:
    """Where hosts reach the authority: as stated, else the site's own by its address on the fabric. None without any."""
    stated, own = site.concerns.identity, site.concerns.site_ca
    if stated is not None and stated.authority is not None:
        return stated.authority.rstrip("/")
    name = authority_host(site)
    if own is None or name is None:
        return None
    address = authority_address(site, name, devices)
    return f"https://{f'[{address}]' if ':' in address else address}:{own.port}"


def authority_address(site: Site, name: str, devices: Iterable[DevicePlan]) -> str:
    """The address on the fabric of the management host *name*."""
    network = site.management_hosts[name].fabric_network
    device = next(device for device in devices if device.name == name)
    return next(
        str(ip_interface(text).ip)
        for interface in device.interfaces
        if interface.untagged_vlan == network
        for text in interface.addresses
    )


def authority(site: Site, devices: Iterable[DevicePlan], vlans: Iterable[VlanPlan]) -> AuthorityPlan | None:
    """The authority of the site's hosts; None when nothing is stated."""
    url = authority_url(site, devices)
    if url is None:
        return None
    stated = site.concerns.identity
    host = None if stated is not None and stated.authority is not None else authority_host(site)
    return AuthorityPlan(url=url, host=host, domain=domain(site), networks=networks(vlans), lifetime=lifetime(site))
