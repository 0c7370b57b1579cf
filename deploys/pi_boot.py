"""The concern `pi_boot` alone: pyinfra @pinion/<site> deploys/pi_boot.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("pi_boot",))
