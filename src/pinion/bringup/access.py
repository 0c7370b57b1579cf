"""How to reach a site's services: read from the stack's configuration, the one place where such facts are written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr

from pinion.bringup.stack_environment import StackError, environment


class Access(BaseModel):
    """Where a site's services are and how to log in. Secrets never show in `repr`.

    None means that the stack's configuration does not say; the checks that need it are then not run, with that reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    netbox_url: str | None = None
    netbox_token: SecretStr | None = None
    netbox_ca_file: Path | None = None
    switch_username: str | None = None
    switch_password: SecretStr | None = None
    switch_known_hosts: Path | None = None
    kubeconfig: Path | None = None
    ssh_key: Path | None = None
    ssh_known_hosts: Path | None = None

    def known_hosts(self) -> Path:
        """Where the host keys of switches are: the stated file, else OpenSSH's own."""
        return self.switch_known_hosts or Path.home() / ".ssh" / "known_hosts"


def access_of(root: Path, site: str, variables: Mapping[str, str] | None = None) -> Access:
    """The access of *site* from its stack's configuration, and from `PINION_SSH_KEY` and `PINION_KNOWN_HOSTS` for its hosts.

    Raises `StackError` when pulumi cannot read the configuration.
    """
    given = os.environ if variables is None else variables
    run = subprocess.run(
        ["pulumi", "--non-interactive", "config", "--stack", site, "--show-secrets", "--json"],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise StackError(f"cannot read the configuration of stack {site}: {run.stderr.strip()}")
    held = {key: entry.get("value") for key, entry in json.loads(run.stdout or "{}").items()}
    stated = {
        "netbox_url": held.get("netbox:url"),
        "netbox_token": held.get("netbox:token"),
        "netbox_ca_file": held.get("netbox:caFile"),
        "switch_username": held.get("switch:username"),
        "switch_password": held.get("switch:password"),
        "switch_known_hosts": held.get("switch:knownHosts"),
        "kubeconfig": held.get("kubernetes:kubeconfig"),
        "ssh_key": given.get("PINION_SSH_KEY"),
        "ssh_known_hosts": given.get("PINION_KNOWN_HOSTS"),
    }
    return Access.model_validate({key: value for key, value in stated.items() if value})
