"""The concern `edge_runtime` alone: pyinfra @pinion/<site> deploys/edge_runtime.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("edge_runtime",))
