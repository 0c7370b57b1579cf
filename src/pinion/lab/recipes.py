"""What the machines' file systems are made of: recipes of layers, each on top of its parent, keyed by their whole content.

A recipe is data. Whatever shapes the result (packages, files, script, parent) is in its key; what only helps to build it (host
environment, build-time binds) is not.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: The Debian release of every lab machine: the first whose Python (3.13) runs NetBox 4.7.
RELEASE = "trixie"
#: The login user of every lab machine.
USER, USER_ID = "pinion", 1000


@dataclass(frozen=True)
class Bind:
    """A file or folder of this machine shown at *target* in a lab machine."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class LayerRecipe:
    """One layer of a machine's file system.

    *packages* are installed without recommended ones and without starting services; *files* (path to text, 0644, root) are put in next;
    then *script* runs (bash -eu, root, no systemd, this machine's network). *env* are patterns of host environment variables that the
    script sees and *binds* what is shown to it when it exists; neither is part of the key. *minutes* is an honest estimate on two cores.
    """

    name: str
    parent: LayerRecipe | None
    packages: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    script: str = ""
    env: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()
    minutes: float = 1.0

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of everything that shapes the layer, its parents included."""
        content = {
            "release": RELEASE,
            "machine": platform.machine(),
            "name": self.name,
            "parent": self.parent.key if self.parent else None,
            "packages": sorted(self.packages),
            "files": dict(self.files),
            "script": self.script,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """Name of the layer's folder in the cache."""
        return f"{self.name}-{self.key[:16]}"

    @property
    def chain(self) -> tuple[LayerRecipe, ...]:
        """This layer and its ancestors, the base last: the order of an overlay's lower folders."""
        return (self, *(self.parent.chain if self.parent else ()))


_BASE_SCRIPT = rf"""
useradd --uid {USER_ID} --user-group --create-home --shell /bin/bash {USER}
install -d -m 0700 -o {USER} -g {USER} /home/{USER}/.ssh
printf '%s ALL=(ALL) NOPASSWD: ALL\n' {USER} >/etc/sudoers.d/10-{USER}
chmod 0440 /etc/sudoers.d/10-{USER}

# a machine gets its own identity before its first boot, never one that the layer was born with
rm -f /etc/ssh/ssh_host_* /etc/machine-id /var/lib/dbus/machine-id /etc/hostname
install -m 0444 /dev/null /etc/machine-id

# nothing in a lab machine wakes up by itself to look for updates, and no login prompt waits on a console that is a log
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
  console-getty.service getty.target systemd-firstboot.service systemd-networkd-wait-online.service >/dev/null 2>&1
systemctl enable systemd-networkd.service ssh.service >/dev/null 2>&1
systemctl set-default multi-user.target >/dev/null 2>&1
"""

#: Shown in every machine: units stop quickly, the journal stays small.
_BASE_FILES = {
    "/etc/systemd/system.conf.d/10-pinion.conf": "[Manager]\nDefaultTimeoutStartSec=60s\nDefaultTimeoutStopSec=10s\n",
    "/etc/systemd/journald.conf.d/10-pinion.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nForwardToConsole=no\n",
    "/etc/ssh/sshd_config.d/05-pinion.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPasswordAuthentication no\nPermitRootLogin no\nUseDNS no\n"
    ),
    "/etc/apt/apt.conf.d/10-pinion": (
        'Acquire::Retries "3";\nAcquire::GzipIndexes "true";\nAcquire::Languages "none";\nDPkg::Options:: "--force-unsafe-io";\n'
    ),
}

BASE = LayerRecipe(
    name="base",
    parent=None,
    packages=(
        "ca-certificates", "curl", "dbus", "iproute2", "iputils-ping", "kmod", "libpam-systemd", "netbase", "nftables", "openssh-server",
        "procps", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv",
    ),
    files=_BASE_FILES,
    script=_BASE_SCRIPT,
    minutes=1.5,
)  # fmt: skip

SWITCH = LayerRecipe(
    name="switch",
    parent=BASE,
    packages=("ethtool", "openvswitch-switch", "python3-asyncssh", "tcpdump"),
    # the switch's own software decides when the data plane starts
    script="systemctl disable ssh.service >/dev/null 2>&1\n",
    minutes=0.5,
)

NODE = LayerRecipe(
    name="node",
    parent=BASE,
    packages=(
        "conntrack", "containerd", "containernetworking-plugins", "ebtables", "ethtool", "iptables", "runc", "socat",
    ),
    # started by whoever configures it
    script="systemctl disable containerd.service >/dev/null 2>&1\n",
    minutes=0.7,
)  # fmt: skip
