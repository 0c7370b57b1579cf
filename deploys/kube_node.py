"""The concern `kube_node` alone: pyinfra @pinion/<site> deploys/kube_node.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("kube_node",))
