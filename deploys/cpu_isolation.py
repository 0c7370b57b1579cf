"""The concern `cpu_isolation` alone: pyinfra @pinion/<site> deploys/cpu_isolation.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("cpu_isolation",))
