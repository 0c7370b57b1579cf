"""The concern `container_runtime` alone: pyinfra @pinion/<site> deploys/container_runtime.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("container_runtime",))
