"""The concern `node_metrics` alone: pyinfra @pinion/<site> deploys/node_metrics.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("node_metrics",))
