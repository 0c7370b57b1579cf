"""The concern `nic_tuning` alone: pyinfra @pinion/<site> deploys/nic_tuning.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("nic_tuning",))
