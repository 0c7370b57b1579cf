"""Hosts of plans in memory, as their images left them."""

from __future__ import annotations

import json

from doubles.hosts import MemoryHost

from pinion.drivers.hosts.onhost import wanted
from pinion.drivers.hosts.onhost.machine import FileState, UnitState
from pinion.drivers.hosts.requests import selection
from pinion.plan.context import PI_COMMAND_LINE
from pinion.plan.hosts import concern_names
from pinion.plan.model import HostPlan


def asked(host: HostPlan) -> list[wanted.Concern]:
    """The request for *host*, through JSON as on the wire."""
    request = json.loads(json.dumps(selection(host.model_dump(mode="json"), concern_names())))
    return [wanted.concern(concern) for concern in request["concerns"]]


def image(concerns: list[wanted.Concern]) -> MemoryHost:
    """A host as its image left it: an archive with every package, a kernel with every parameter and module."""
    host = MemoryHost(
        known={name for concern in concerns for name in concern.packages},
        packages={name for concern in concerns for name in concern.packages_absent},
        files={PI_COMMAND_LINE: FileState("console=tty1 root=PARTUUID=1 rootwait\n", "root", "root", 0o755)},
        sysctls={sysctl.key: "as booted" for concern in concerns for sysctl in concern.sysctls},
        loadable={module.name for concern in concerns for module in concern.modules},
        # what packages bring, and what the image has
        units={unit.name: UnitState(enabled=False, active=False) for concern in concerns for unit in concern.units},
    )
    for name in host.units:
        host.reload(name)
    return host
