"""Ansible inventory plugin: the hosts of a Pinion site file."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import BaseInventoryPlugin

from pinion.drivers.hosts.bundle import program
from pinion.drivers.hosts.inventory import ansible_variables, login, plan_of
from pinion.site.errors import SiteErrors

DOCUMENTATION = """
name: pinion_site
short_description: Hosts of a Pinion site file
description:
  - Reads a Pinion site file, compiles its plan, and lists every host with its address, its groups and its concerns (C(pinion_host)).
  - Groups are the kinds of hosts (C(pis), C(gpu_servers), C(management_hosts)) and the names of the groups of Pis.
  - How to log in comes from the environment variables E(PINION_SSH_KEY) and E(PINION_KNOWN_HOSTS).
options: {}
"""

EXAMPLES = """
# ansible-inventory -i inventories/lab/site.yml --list
version: 1
site: lab
"""


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]
    """The hosts of one site file."""

    NAME = "pinion_site"

    def verify_file(self, path: str) -> bool:
        """Whether *path* may be a site file: a YAML file that states a `site`. What is wrong in it, `parse` says."""
        if not super().verify_file(path) or Path(path).suffix not in {".yml", ".yaml"}:
            return False
        return any(line.startswith("site:") for line in Path(path).read_text(errors="replace").splitlines())

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Fill *inventory* from the site file *path*."""
        super().parse(inventory, loader, path, cache)
        try:
            plan = plan_of(Path(path))
        except SiteErrors as errors:
            raise AnsibleParserError(f"the site file has problems:\n{errors}") from errors
        program()  # packed once here, before Ansible forks a worker a host
        access = login()
        inventory.set_variable("all", "pinion_site", plan.site)
        for host in plan.hosts:
            for group in host.groups:
                inventory.add_group(group)
            inventory.add_host(host.name)
            for group in host.groups:
                inventory.add_host(host.name, group=group)
            for name, value in ansible_variables(host, access).items():
                inventory.set_variable(host.name, name, value)
