"""Every host of a site to its planned state: pyinfra @pinion/<site> deploys/site.py [--dry] [--diff] [-y]."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring()
