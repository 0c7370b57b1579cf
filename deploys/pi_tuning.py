"""The concern `pi_tuning` alone: pyinfra @pinion/<site> deploys/pi_tuning.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("pi_tuning",))
