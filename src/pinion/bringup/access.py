"""How to reach a site's services: read from the stack's configuration, the one place where such facts are written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr

from pinion.bringup.stack_environment import StackError, environment
from pinion.drivers.clear_text import PLAIN_HTTP, is_in_clear
from pinion.drivers.kubeconfig import is_text


class Access(BaseModel):
    """Where a site's services are and how to log in. Secrets never show in `repr`. *kubeconfig* is a file, however it was stated.

    None means that the stack's configuration does not say; the checks that need it are then not run, with that reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    netbox_url: str | None = None
    netbox_token: SecretStr | None = None
    netbox_ca_file: Path | None = None
    netbox_allow_plain_http: bool = False
    switch_username: str | None = None
    switch_password: SecretStr | None = None
    switch_enable_password: SecretStr | None = None
    switch_known_hosts: Path | None = None
    kubeconfig: Path | None = None
    ssh_key: Path | None = None
    ssh_known_hosts: Path | None = None


def access_of(root: Path, site: str, variables: Mapping[str, str] | None = None) -> Access:
    """The access of *site* from its stack's configuration, and from `PINION_SSH_KEY` and `PINION_KNOWN_HOSTS` for its hosts.

    Raises `StackError` when pulumi cannot read the configuration, or when a token would go over the network in clear.
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
        "netbox_allow_plain_http": held.get("netbox:allowPlainHttp"),
        "switch_username": held.get("switch:username"),
        "switch_password": held.get("switch:password"),
        "switch_enable_password": held.get("switch:enablePassword"),
        "switch_known_hosts": held.get("switch:knownHosts"),
        "kubeconfig": _kubeconfig(held.get("kubernetes:kubeconfig")),
        "ssh_key": given.get("PINION_SSH_KEY"),
        "ssh_known_hosts": given.get("PINION_KNOWN_HOSTS"),
    }
    access = Access.model_validate({key: value for key, value in stated.items() if value})
    if access.netbox_url is not None and is_in_clear(access.netbox_url) and not access.netbox_allow_plain_http:
        raise StackError(f"stack {site}: netbox:url {access.netbox_url}: {PLAIN_HTTP}")
    return access


def _kubeconfig(stated: str | None) -> Path | None:
    """The file of a kubeconfig. One that is stated as text is put into memory: a file for this process and the programs that it starts,
    that no other user can open, and that is gone with this process, however it ends.
    """
    if not stated:
        return None
    if not is_text(stated):
        return Path(stated).expanduser()
    memory = os.memfd_create("kubeconfig")
    os.fchmod(memory, 0o600)
    with os.fdopen(memory, "w", closefd=False) as stream:
        stream.write(stated)
    return Path(f"/proc/{os.getpid()}/fd/{memory}")
