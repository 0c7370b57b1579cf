"""The concern `edge_cluster` alone: pyinfra @pinion/<site> deploys/edge_cluster.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("edge_cluster",))
