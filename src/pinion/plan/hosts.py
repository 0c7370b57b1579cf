"""What each host must be, concern by concern."""

from __future__ import annotations

from pinion.plan.model import Concern, DeviceKind
from pinion.plan.os_tuning import os_tuning
from pinion.site.catalog import Platform
from pinion.site.model import Site


def host_concerns(kind: DeviceKind, platform: Platform, site: Site) -> dict[str, Concern]:
    """The concerns of a host of *kind* on *platform*, by name, in the order in which they are applied."""
    return {concern.name: concern for concern in (os_tuning(kind, platform, site),)}
