"""Sites for tests of hosts."""

from __future__ import annotations

from pathlib import Path

import yaml

from pinion.plan import Plan, plan
from pinion.site import catalog as hardware
from pinion.site.catalog import Catalog
from pinion.site.loader import load
from pinion.site.model import Site

REPOSITORY = Path(__file__).parents[3]
LAB = REPOSITORY / "inventories/lab/site.yml"
DC = REPOSITORY / "inventories/dc-rack-12/site.yml"
#: A public key that nobody has the private half of.
ADMIN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ops@example"


def planned(path: Path, **changes: object) -> Plan:
    """The plan of the site file *path* with some top-level keys replaced; None removes a key."""
    stated = yaml.safe_load(path.read_text()) | changes
    return plan(Site.model_validate({key: value for key, value in stated.items() if value is not None}))


def plan_of_file(path: Path) -> Plan:
    """The plan of the site file *path* as it is."""
    return plan(load(path))


def with_pfc(*platforms: str) -> Catalog:
    """The hardware catalogue, had we PFC for the switches of *platforms*."""
    known = hardware.load()
    changed = {
        name: platform.model_copy(
            update={
                "qos": platform.qos.model_copy(
                    update={"lossless_priorities": (1, 2, 3, 4, 5) if name in platforms else ()}
                )
            }
        )
        if platform.qos is not None
        else platform
        for name, platform in known.platforms.items()
    }
    return known.model_copy(update={"platforms": changed})
