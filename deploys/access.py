"""The concern `access` alone: pyinfra @pinion/<site> deploys/access.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("access",))
