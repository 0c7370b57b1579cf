"""Where the program's facts come from: the site file for what the site is, the stack's configuration for where its services are."""

from __future__ import annotations

import os
from pathlib import Path

import pulumi

from pinion.plan import Plan, plan
from pinion.site.loader import SiteErrors, load


def site_file() -> Path:
    """The site file of this stack: `inventories/<stack>/site.yml` below `$PINION_ROOT` or the project's folder."""
    root = Path(os.environ.get("PINION_ROOT") or Path(__file__).resolve().parent.parent)
    return root / "inventories" / pulumi.get_stack() / "site.yml"


def planned_site() -> Plan:
    """The plan of this stack's site. Every problem of the site file is one error of the run, and nothing is touched."""
    try:
        return plan(load(site_file()))
    except SiteErrors as errors:
        raise pulumi.RunError(str(errors)) from None
