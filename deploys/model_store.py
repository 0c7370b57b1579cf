"""The concern `model_store` alone: pyinfra @pinion/<site> deploys/model_store.py. The role of the same name is Ansible's."""

from __future__ import annotations

from pinion.drivers.hosts.pyinfra_host import bring

bring(only=("model_store",))
