"""The concern `os_tuning` by pyinfra: kernel parameters, packages, users and a hardened SSH server.

All values come from the plan (`host.data.pinion_host`); the role `os_tuning` is the same concern by Ansible.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api import deploy

from pinion.drivers.hosts.pyinfra_concern import concern


@deploy("os_tuning")
def os_tuning() -> None:
    """Bring the host to its planned state."""
    concern(name="Bring the host to its planned state", wanted=host.data.pinion_host["concerns"]["os_tuning"])


os_tuning()
