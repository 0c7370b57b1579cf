"""The concern `site_ca` alone: pyinfra @pinion/<site> deploys/site_ca.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("site_ca",))
