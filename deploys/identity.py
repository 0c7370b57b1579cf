"""The concern `identity` alone: pyinfra @pinion/<site> deploys/identity.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("identity",))
