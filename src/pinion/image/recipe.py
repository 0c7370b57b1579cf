"""What the base image is made of: packages, files, a script. Pure data; all of it is in the image's key."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources

from pinion.image.layout import BOOT, LABELS, ROOT, Layout

#: The Debian release of the image, and its architecture.
RELEASE, ARCHITECTURE = "trixie", "arm64"
#: The kernel that starts under QEMU and on boards that it knows; see docs/images.md for what that means on a Pi 5.
KERNEL = "linux-image-arm64"
#: The firmware of the Raspberry Pi 4 (a Pi 5 has it in its EEPROM): its files go on the boot partition, the package is not installed.
FIRMWARE = "raspi-firmware"
FIRMWARE_FILES = ("usr/lib/raspi-firmware/start4.elf", "usr/lib/raspi-firmware/fixup4.dat")

#: Enough to be reached and converged; the concerns install the rest.
PACKAGES = (
    "ca-certificates", "curl", "dbus", "e2fsprogs", "fdisk", "initramfs-tools", "iproute2", "iputils-ping", "kmod", "libnss-myhostname",
    "libpam-systemd", KERNEL, "login", "mount", "netbase", "nftables", "openssh-server", "openssl", "passwd", "procps", "python3",
    "python3-apt", "sudo", "systemd", "systemd-sysv", "systemd-timesyncd", "tzdata", "udev", "zstd",
)  # fmt: skip

#: The login that the plan counts on (`pinion.plan.compile.SSH_USER`).
USER, USER_ID = "pinion", 1000
#: Where programs of hosts lie (`pinion.plan.programs.FOLDER`).
FIRST_BOOT = "/usr/local/lib/pinion/first-boot"
FIRST_BOOT_UNIT = "pinion-first-boot.service"

#: zstd at its default of 9 costs minutes under emulation and saves 2 MiB.
INITRAMFS = "COMPRESS=zstd\nCOMPRESSLEVEL=3\nRESUME=none\n"

_UNIT = f"""\
[Unit]
Description=Pinion: identity from the seed partition, the root over the whole card
DefaultDependencies=no
RequiresMountsFor=/var/lib/pinion /usr/local
After=local-fs.target systemd-remount-fs.service
Wants=network-pre.target
Before=network-pre.target systemd-networkd.service systemd-hostnamed.service systemd-timesyncd.service ssh.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={FIRST_BOOT}

[Install]
WantedBy=multi-user.target
"""

#: initramfs-tools calls these after it made an initramfs; the firmware looks for this pair of names (config.txt: auto_initramfs=1).
_BOOT_HOOK = """\
#!/bin/sh
# Kernel and initramfs onto the boot partition, each by rename, the old ones until the moment of it. $1: version.
set -eu
boot=/boot/firmware
mountpoint -q "$boot" || exit 0
for pair in "vmlinuz-$1:kernel8.img" "initrd.img-$1:initramfs8"; do
  from=/boot/${pair%%:*} to=$boot/${pair##*:}
  test -e "$from" || continue
  cp "$from" "$to.new"
  sync -f "$to.new"
  mv "$to.new" "$to"
done
"""

#: A node without identity, by path; its first boot says more.
UNASSIGNED = {
    "/etc/hostname": "unassigned\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
    "/etc/resolv.conf": "# Names come from /etc/hosts until a concern says otherwise.\noptions timeout:1 attempts:1\n",
}


def _printed(path: str) -> str:
    """The content of *path* as printf(1) takes it."""
    return UNASSIGNED[path].replace("\n", "\\n")


_SCRIPT = f"""\
# once, now that all packages and files are there (see _MADE_AT_THE_END)
update-ca-certificates
update-initramfs -c -k all
useradd --uid {USER_ID} --user-group --create-home --shell /bin/bash {USER}
install -d -m 0700 -o {USER} -g {USER} /home/{USER}/.ssh
chmod 0440 /etc/sudoers.d/10-{USER}
# a node gets its identity at its first boot, never one that the image was born with
rm -f /etc/ssh/ssh_host_* /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /etc/resolv.conf
install -m 0444 /dev/null /etc/machine-id
echo unassigned >/etc/hostname
printf '{_printed("/etc/hosts")}' >/etc/hosts
printf '{_printed("/etc/resolv.conf")}' >/etc/resolv.conf
install -d -m 0755 /boot/firmware /var/lib/pinion
# the account of root has no password and no key; nor has any other
passwd --quiet --lock root
systemctl enable pinion-first-boot.service systemd-networkd.service systemd-timesyncd.service ssh.service >/dev/null 2>&1
# the second of these would make host keys of its own at a first boot without a seed
systemctl mask systemd-networkd-wait-online.service sshd-keygen.service systemd-firstboot.service >/dev/null 2>&1
systemctl set-default multi-user.target >/dev/null 2>&1
# /usr is as new as these say (systemd-update-done.service(8)): else a first boot makes the hardware database before it looks for devices
touch /etc/.updated /var/.updated
# what differs from build to build, or says where it was built
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap /var/log/apt/* /var/log/dpkg.log \\
  /var/log/bootstrap.log /var/log/alternatives.log /var/cache/ldconfig/aux-cache /var/cache/apt/*.bin
rm -rf /var/lib/apt/lists/* /tmp/* /var/lib/systemd/catalog/database
find / -xdev -name __pycache__ -prune -exec rm -rf {{}} +
"""


#: Programs that make caches in the build, minutes under emulation: bytecode (a node makes it at first use; ``{python}``: 3.13), the
#: hardware database (names of keyboards and mice; udev works without), the catalogue of the journal's explanations.
_CACHE_MAKERS = (
    "/usr/lib/python{python}/py_compile.py",
    "/usr/bin/py3compile",
    "/usr/bin/systemd-hwdb",
    "/usr/bin/journalctl",
)
#: Programs that dpkg runs twice in a build, for the package and for its trigger; under emulation one initramfs takes minutes. The script
#: runs each once, when its last input is in place.
_MADE_AT_THE_END = ("/usr/sbin/update-initramfs", "/usr/sbin/update-ca-certificates")


def idle(python: str) -> str:
    """A script that puts idle programs in the place of those above (dpkg-divert(1)), and with ``back`` takes them away again.

    ``#!/bin/true`` is a program that does nothing for the kernel, and a comment for Python, which also runs one of them.
    """
    lines = []
    for path in (template.format(python=python) for template in (*_CACHE_MAKERS, *_MADE_AT_THE_END)):
        lines += [
            'if [ "${1:-}" = back ]; then',
            f"  rm -f {path}",
            f"  dpkg-divert --quiet --rename --remove {path}",
            "else",
            f"  mkdir -p $(dirname {path})",
            f"  dpkg-divert --quiet --no-rename --divert {path}.real --add {path}",
            f"  printf '#!/bin/true\\n' >{path}",
            f"  chmod 0755 {path}",
            "fi",
        ]
    return "\n".join(lines) + "\n"


@cache
def first_boot_program() -> str:
    """The program that runs at first boot, as text."""
    return (resources.files("pinion.services.node_programs") / "first_boot.py").read_text(encoding="utf-8")


@cache
def build_script() -> str:
    """The script that builds the root, as text."""
    return (resources.files("pinion.image") / "build-root.sh").read_text(encoding="utf-8")


def files(disk: Layout) -> dict[str, tuple[str, int]]:
    """Files of the base from Debian's packages, by path: content and mode."""
    return common_files(disk) | {
        "/etc/kernel/postinst.d/zz-pinion-boot": (_BOOT_HOOK, 0o755),
        "/etc/initramfs/post-update.d/zz-pinion-boot": (_BOOT_HOOK, 0o755),
    }


def common_files(disk: Layout) -> dict[str, tuple[str, int]]:
    """Files of every base image, by path: content and mode."""
    fstab = (
        f"PARTUUID={disk.partuuid(ROOT)} / ext4 noatime,errors=remount-ro 0 1\n"
        f"PARTUUID={disk.partuuid(BOOT)} /boot/firmware vfat noatime,nofail,x-systemd.device-timeout=300s 0 2\n"
    )
    return {
        "/etc/fstab": (fstab, 0o644),
        f"/etc/sudoers.d/10-{USER}": (f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440),
        "/etc/ssh/sshd_config.d/05-pinion.conf": (
            "HostKey /etc/ssh/ssh_host_ed25519_key\nPasswordAuthentication no\nPermitRootLogin no\nUseDNS no\n",
            0o644,
        ),
        f"/etc/systemd/system/{FIRST_BOOT_UNIT}": (_UNIT, 0o644),
        FIRST_BOOT: (first_boot_program(), 0o755),
    }


def key(disk: Layout, lock_digest: str) -> str:
    """SHA-256 of everything that shapes the base image: the locked packages, and all that is written here."""
    content = {
        "release": RELEASE,
        "architecture": ARCHITECTURE,
        "packages": PACKAGES,
        "lock": lock_digest,
        "files": {path: [text, mode] for path, (text, mode) in files(disk).items()},
        "script": _SCRIPT,
        "initramfs": INITRAMFS,
        "idle": idle(""),
        "firmware": FIRMWARE_FILES,
        "build": build_script(),
        "table": disk.script(),
        "labels": LABELS,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def script() -> str:
    """What runs in the new root at the end (bash -eu, root)."""
    return _SCRIPT
