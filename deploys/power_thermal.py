"""The concern `power_thermal` alone: pyinfra @pinion/<site> deploys/power_thermal.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("power_thermal",))
