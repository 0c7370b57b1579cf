"""Verify a site: the checks of its plan, given to the probers that its access allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pinion.bringup.access import Access
from pinion.bringup.rollout import Verify
from pinion.checks.claims import checks
from pinion.checks.hosts import host_checks
from pinion.checks.model import Check, Finding, Outcome
from pinion.checks.probers import Prober, run_all
from pinion.checks.probers.hosts import SshAccess, host_prober
from pinion.drivers.hosts.inventory import Login
from pinion.plan.addressing import host
from pinion.plan.model import Plan, SwitchPlan

if TYPE_CHECKING:
    from pinion.drivers.switch import SwitchDriver


#: Seconds between two looks at claims that do not hold yet.
_LOOK_SECONDS = 3.0
#: Seconds for which a claim that settles may say the same: it says how many bytes are here, and then how many are hashed.
_STALLED_SECONDS = 120.0


def verify(
    plan: Plan,
    access: Access,
    topics: Sequence[str] = (),
    *,
    settle: float = 0.0,
    tell: Callable[[str], object] = lambda _: None,
) -> tuple[Finding, ...]:
    """Run the checks of *plan* (all, or those of *topics*) and return one Finding each, in order.

    *settle*: seconds for which claims that fail are tried again, since a node that was cut off for a minute reports itself a little later
    than its switch port is up. *tell* hears of it.
    """
    wanted = [check for check in checks(plan) if not topics or check.topic.value in topics]
    return settled(lambda some: run_all(plan, some, probers(access)), wanted, seconds=settle, tell=tell)


def host_verifier(
    plan: Plan,
    access: Login,
    concerns: Sequence[str] = (),
    *,
    settle: float = 0.0,
    tell: Callable[[str], object] = lambda _: None,
) -> Verify:
    """Runs the checks of hosts of *plan* (all, or those of *concerns*) for a wave; *settle* and *tell* as for `verify`."""
    prober = host_prober(SshAccess(key=access.key, known_hosts=access.known_hosts))

    def verify_hosts(names: Sequence[str]) -> Sequence[Finding]:
        own = [host for host in plan.hosts if host.name in set(names)]
        if concerns:
            own = [
                host.model_copy(update={"concerns": {name: c for name, c in host.concerns.items() if name in concerns}})
                for host in own
            ]
        part = plan.model_copy(update={"hosts": tuple(own)})
        return settled(lambda some: run_all(part, some, [prober]), host_checks(part), seconds=settle, tell=tell)

    return verify_hosts


def settled(
    look: Callable[[Sequence[Check]], Sequence[Finding]],
    wanted: Sequence[Check],
    *,
    seconds: float,
    tell: Callable[[str], object],
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Finding, ...]:
    """*look* at all that is *wanted*, then for up to *seconds* again at what fails; the last finding of each, in order.

    A claim that settles is waited for as long as it makes headway, and what else failed is then looked at once more: it may hang on that.
    """
    give_up = clock() + seconds
    headway = clock()
    found = {finding.check.id: finding for finding in look(wanted)}
    while failed := [finding for finding in found.values() if finding.outcome is Outcome.FAILED]:
        settling = [finding for finding in failed if finding.check.settles and clock() < headway + _STALLED_SECONDS]
        if not settling and clock() + _LOOK_SECONDS > give_up:
            break
        again = settling or failed
        tell(f"{len(failed)} claims do not hold yet, looking again: {again[0].check.claim}: {again[0].found} …")
        sleep(_LOOK_SECONDS)
        now = {finding.check.id: finding for finding in look([finding.check for finding in again])}
        if settling and any(now[finding.check.id].found != finding.found for finding in settling):
            headway = clock()
        if settling and all(finding.outcome is not Outcome.FAILED for finding in now.values()):
            give_up = max(give_up, clock() + _LOOK_SECONDS)
        found |= now
    return tuple(found[check.id] for check in wanted)


def probers(access: Access) -> list[Prober]:
    """The probers that *access* suffices for. Drivers are imported only when they are used."""
    found: list[Prober] = [host_prober(SshAccess(key=access.ssh_key, known_hosts=access.ssh_known_hosts))]
    if access.netbox_url is not None and access.netbox_token is not None:
        from pinion.checks.probers.records import record_prober
        from pinion.drivers.netbox import NetBoxDriver

        driver = NetBoxDriver(
            url=access.netbox_url,
            token=access.netbox_token.get_secret_value(),
            ca_file=str(access.netbox_ca_file) if access.netbox_ca_file is not None else None,
            allow_plain_http=access.netbox_allow_plain_http,
            fresh=30.0,
        )
        found.append(record_prober(driver))
    if (switches := switch_drivers(access)) is not None:
        from pinion.checks.probers.switches import switch_prober

        found.append(switch_prober(switches))
    if access.kubeconfig is not None:
        from pinion.checks.probers.cluster import cluster_prober

        found.append(cluster_prober(access.kubeconfig))
    return found


def switch_drivers(access: Access) -> Callable[[SwitchPlan], SwitchDriver] | None:
    """Opens the driver of a switch, logging in as the stack's update does; None when *access* does not say how."""
    username, password, known_hosts = access.switch_username, access.switch_password, access.switch_known_hosts
    if username is None or password is None or known_hosts is None:
        return None
    from pinion.drivers.switch import SwitchAccess, open_driver

    def driver_of(switch: SwitchPlan) -> SwitchDriver:
        reached = SwitchAccess(
            host=host(switch.management_address),
            port=switch.management_port,
            username=username,
            password=password,
            enable_password=access.switch_enable_password,
            known_hosts=known_hosts,
        )
        return open_driver(switch.driver, switch.name, reached)

    return driver_of
