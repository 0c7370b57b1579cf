"""In which order a change reaches the hosts: a canary, a few, the rest. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pinion.plan.model import DeviceKind, HostPlan, RolloutPlan

#: Whom it hurts least first: a Pi is one of many, everything else depends on a management host.
_RANK = (DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST)

#: The concern whose host others need to be converged at all.
NEEDED_FIRST = "site_ca"


def waves(hosts: Sequence[HostPlan], rollout: RolloutPlan) -> tuple[tuple[str, ...], ...]:
    """The names of *hosts* in waves: `rollout.canary` of them, then the share `rollout.second` of all, then the rest.

    Each host is in exactly one wave, and no wave is empty. A wave with more hosts of a group than its limit becomes several. The first
    host of each kind comes as early as that allows, so that every concern is tried before many hosts have it. The host of the site's
    authority comes before all: the others ask it for their certificates.
    """
    needed = [host for host in hosts if NEEDED_FIRST in host.concerns]
    ordered = _spread([host for host in hosts if NEEDED_FIRST not in host.concerns])
    sizes = [rollout.canary, math.ceil(len(ordered) * rollout.second), len(ordered)]
    found = list(_limited(needed, rollout.limits))
    start = 0
    for size in sizes:
        found += _limited(ordered[start : start + size], rollout.limits)
        start += size
    return tuple(found)


def _spread(hosts: Sequence[HostPlan]) -> list[HostPlan]:
    """*hosts* with their kinds mixed evenly, the first of each kind before all others."""
    total, seen = Counter(host.kind for host in hosts), Counter[DeviceKind]()
    keyed = []
    for host in hosts:
        place = seen[host.kind]
        seen[host.kind] += 1
        keyed.append(((place > 0, place / total[host.kind], _RANK.index(host.kind), place), host))
    return [host for _, host in sorted(keyed, key=lambda entry: entry[0])]


def _limited(hosts: Sequence[HostPlan], limits: dict[str, int]) -> list[tuple[str, ...]]:
    """*hosts* in as many waves as the limits of their groups ask for, each host in the first that has room for it."""
    found: list[list[str]] = []
    counts: list[Counter[str]] = []
    for host in hosts:
        groups = [group for group in host.groups if group in limits]
        room = (at for at, count in enumerate(counts) if all(count[group] < limits[group] for group in groups))
        at = next(room, len(found))
        if at == len(found):
            found.append([])
            counts.append(Counter())
        found[at].append(host.name)
        counts[at].update(groups)
    return [tuple(wave) for wave in found]
