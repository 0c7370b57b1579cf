"""The concern `accelerator` alone: pyinfra @pinion/<site> deploys/accelerator.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("accelerator",))
