"""The concern `gpu_driver` alone: pyinfra @pinion/<site> deploys/gpu_driver.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("gpu_driver",))
