"""The concern `gpu_tuning` alone: pyinfra @pinion/<site> deploys/gpu_tuning.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("gpu_tuning",))
