"""The concern `base` alone: pyinfra @pinion/<site> deploys/base.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("base",))
