"""The concern `os_tuning` alone: pyinfra @pinion/<site> deploys/os_tuning.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("os_tuning",))
