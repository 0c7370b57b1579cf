"""The operator's position: a command of this machine, with this machine's files, in the management host's network namespace.

Addresses of the plan are reachable there, names come from the plan, and no packet can leave the machine.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pinion.drivers.hosts.joining import VARIABLE as KUBECONFIG_VARIABLE
from pinion.drivers.identity.place import VARIABLE
from pinion.lab import namespaces
from pinion.lab.errors import LabError
from pinion.lab.state import InstanceState, write_file

_CLONE_NEWNS = 0x00020000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19  # linux/mount.h
_libc = ctypes.CDLL(None, use_errno=True)
#: Proxies of this machine do not exist in the lab.
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"}


def environment(store: InstanceState, inherited: Mapping[str, str]) -> dict[str, str]:
    """*inherited* less proxies, with the instance, the file that names its endpoints, its authority, its cluster, and how to log in."""
    kept = {name: value for name, value in inherited.items() if name.lower() not in _PROXIES}
    login = {"PINION_SSH_KEY": str(store.ssh / "id_ed25519"), "PINION_KNOWN_HOSTS": str(store.ssh / "known_hosts")}
    # what cannot be downloaded is not tried for
    login |= {"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}
    own = {"PINION_INSTANCE": store.name, "PINION_ENDPOINTS": str(store.endpoints), VARIABLE: str(store.authority)}
    if (kubeconfig := store.root / "kubernetes" / "deployer.kubeconfig").exists():
        # one for our programs, one for kubectl and helm: a cluster outside of the lab cannot be reached from here
        own |= {KUBECONFIG_VARIABLE: str(kubeconfig), "KUBECONFIG": str(kubeconfig)}
    return {**kept, **own, **login}


def replace_process(store: InstanceState, machine: str, argv: Sequence[str]) -> NoReturn:
    """Become *argv* in the network position of *machine*. `LabError` when the instance is down or the program is not found."""
    namespace = store.namespace(machine)
    if not namespaces.exists(namespace):
        raise LabError(f"instance {store.name} is not up (no namespace {namespace}); bring it up: pinion lab up")
    resolver = store.root / "resolv.conf"
    write_file(resolver, "# No DNS server in the lab.\noptions timeout:1 attempts:1\n", 0o644)
    namespaces.enter(namespace)
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", _MS_REC | _MS_SLAVE)
    _mount(str(store.hosts), "/etc/hosts", _MS_BIND)
    if Path("/etc/resolv.conf").exists():
        _mount(str(resolver), "/etc/resolv.conf", _MS_BIND)
    try:
        os.execvpe(argv[0], list(argv), environment(store, os.environ))
    except OSError as error:
        raise LabError(f"{argv[0]}: cannot be run: {error.strerror}") from error


def _mount(source: str, target: str, flags: int) -> None:
    _check(_libc.mount(source.encode(), target.encode(), None, flags, None), f"mount on {target}")


def _check(result: int, what: str) -> None:
    if result:
        raise LabError(f"{what}: {os.strerror(ctypes.get_errno())}")
