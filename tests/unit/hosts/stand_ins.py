"""A machine that this one is not: a Pi with a HAT and a GPU server in one, for the concerns that no lab can have.

Real: apt and dpkg (with a database and an archive of their own), every file, every command. Stand-ins, each of the right shape: systemd,
GRUB, the kernel's sysfs, procfs and command line, and the vendors' packages, tiny ones, with programs that answer as the vendors' do.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from unit.services.test_irq_pinning import Machine

from pinion.site.catalog import load

DRIVER, NEWER = "580.95.05", "590.44.01"
UNITS = "/usr/lib/systemd/system"
#: Units are files, and their states are marks; who is started in earnest is in /run/starts, and mounts are.
SYSTEMCTL = f"""#!/bin/sh
set -f; words= property= again=
for word; do case $word in --property=*) property=${{word#*=}};; -*) ;; *) words="$words $word";; esac; done
set -- $words; verb=$1; shift
echo "$verb $*" >>/run/units/log
there() {{ test -e /etc/systemd/system/$1 || test -e {UNITS}/$1; }}
said() {{ sed -n "s/^$2=//p" "/etc/systemd/system/$1"; }}
start() {{ case $1 in *.mount) mount -t tmpfs -o "$(said "$1" Options)" none "$(said "$1" Where)" || exit 1;; esac
  if test -x /run/starts/$1; then /run/starts/$1 || exit 1; fi; : >"/run/units/active.$1"; }}
for unit; do case $verb in
show)
  if [ "$property" = LoadState ]; then there $unit && echo loaded || echo not-found; continue; fi
  test -z "$again" || echo; again=1
  test -e /run/units/active.$unit && echo ActiveState=active || echo ActiveState=inactive
  test -e /run/units/enabled.$unit && echo UnitFileState=enabled || echo UnitFileState=disabled;;
is-active) test -e /run/units/active.$unit || exit 3;;
is-enabled) test -e /run/units/enabled.$unit || exit 1;;
stop) rm -f "/run/units/active.$unit"; case $unit in *.mount) umount "$(said "$unit" Where)";; esac;;
disable) rm -f /run/units/enabled.$unit;;
*)
  there $unit || {{ echo "Unit $unit not found." >&2; exit 5; }}
  case $verb in
  enable) : >/run/units/enabled.$unit;;
  start) start $unit;;
  try-restart|try-reload-or-restart) ! test -e /run/units/active.$unit || start $unit;;
  *) echo "no stand-in for $verb" >&2; exit 1;;
  esac;;
esac; done
"""
#: kubelet(1): it reads its folder where it is told of it, and refuses to start beside a checkpoint of another policy.
KUBELET = """#!/bin/sh
policy=none state=/var/lib/kubelet/cpu_manager_state
if grep -qs -- --config-dir /etc/default/kubelet; then
  found=$(cat /etc/kubernetes/kubelet.conf.d/*.conf | sed -n 's/.*"cpuManagerPolicy": "\\([a-z]*\\)".*/\\1/p'); policy=${found:-none}
fi
if test -e $state && ! grep -q "\\"policyName\\":\\"$policy\\"" $state; then echo "the checkpoint is of another policy" >&2; exit 1; fi
mkdir -p /var/lib/kubelet
printf '{"policyName":"%s","defaultCpuSet":"0-223","checksum":1}\\n' $policy >$state
"""
#: What grub-mkconfig makes of the files that it sources.
UPDATE_GRUB = """#!/bin/sh
GRUB_CMDLINE_LINUX=
for file in /etc/default/grub.d/*.cfg; do test ! -e "$file" || . "$file"; done
mkdir -p /boot/grub && echo "linux /vmlinuz root=/dev/sda2 ro $GRUB_CMDLINE_LINUX" >/boot/grub/grub.cfg
"""
#: Eight whole GPUs. The first call loads the driver's module; another version than the module's is refused.
NVIDIA_SMI = """#!/bin/sh
version=$(cat /usr/share/nvidia-open/version)
test -e /sys/module/nvidia || { mkdir -p /sys/module/nvidia; echo $version >/sys/module/nvidia/version; }
test $version = $(cat /sys/module/nvidia/version) || { echo "Failed to initialize NVML: Driver/library version mismatch"; exit 18; }
for gpu in 0 1 2 3 4 5 6 7; do case "$*" in
-L) echo "GPU $gpu: NVIDIA H100 80GB HBM3 (UUID: GPU-0000000$gpu)";;
--query-gpu=index,mig*) echo "$gpu, Disabled, Disabled";;
--query-gpu=fabric.state*) echo Completed;;
*) echo "No MIG-enabled devices found."; exit 6;;
esac; done
"""
HAILORTCLI = """#!/bin/sh
test "$*" = "fw-control identify" || exit 1
printf 'Executing on device: 0001:01:00.0\\nIdentifying board\\nControl Protocol Version: 2\\nDevice Architecture: HAILO10H\\n'
"""
CONTAINERD = """#!/usr/bin/python3 -IS
import sys
path = sys.argv[2] if sys.argv[1] == "--config" else "/etc/containerd/config.toml"
text = open(path).read()
if sys.version_info >= (3, 11):
    import tomllib
    tomllib.loads(text)
assert sys.argv[-2:] == ["config", "dump"]
print(text)
"""
NVIDIA_CTK = "#!/bin/sh\ntest \"$*\" = 'cdi list' && printf 'nvidia.com/gpu=0\\nnvidia.com/gpu=all\\n'\n"
#: A boot: the kernel reads its command line, modules are loaded anew, and units that are enabled start.
BOOT = """
rm -rf /sys/module/nvidia /run/pinion-needs-boot.json
line=$(sed -n 's/^linux //p' /boot/grub/grub.cfg); echo "BOOT_IMAGE=$line" >/run/cmdline
value() { printf '%s\\n' $line | sed -n "s/^$1=//p"; }
value isolcpus | sed 's/^managed_irq,domain,//' >/sys/devices/system/cpu/isolated
value nohz_full >/sys/devices/system/cpu/nohz_full
nvidia-smi -L >/dev/null
for mark in /run/units/enabled.*; do unit=${mark#/run/units/enabled.}; systemctl is-active $unit || systemctl start $unit; done
"""
#: What differs from the machine that this one is: files with their digests, and folders that it has not. Ansible's UUIDs keep a clock.
_OURS = "find . -path './*/work' -prune -o -path ./var/upper/cache -prune -o -path ./var/upper/log -prune -o"
SNAPSHOT = f"""cd /run/o; {{
{_OURS} '(' -type f -o -type l ')' -exec sha256sum {{}} +
{_OURS} -type d -print | while read -r path; do
  rest=${{path#./*/upper}}; top=${{path#./}}; test -e "/run/lower/${{top%%/*}}$rest" || echo "folder $path"; done
}} | grep -v -e __pycache__ -e libuuid | sort"""


@dataclass(frozen=True)
class Deb:
    """A package: its *files* (path to text; programs begin with ``#!``) and its *units*."""

    name: str
    version: str = "1.0"
    files: dict[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    relations: str = ""

    def build(self, folder: Path) -> str:
        """Make it in *folder*; its entry of the archive's list."""
        root = folder / f"{self.name}-{self.version}"
        for path, text in {**self.files, **{f"{UNITS}/{unit}": "[Unit]\n" for unit in self.units}}.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        control = (
            f"Package: {self.name}\nVersion: {self.version}\nArchitecture: all\nMaintainer: nobody\n{self.relations}"
            "Description: a stand-in\n"
        )
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(control)
        made = folder / f"{self.name}_{self.version}_all.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", str(root), str(made)], check=True, capture_output=True)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        return f"{control}Filename: ./{made.name}\nSize: {made.stat().st_size}\nSHA256: {digest}\n\n"


def driver(version: str) -> list[Deb]:
    """What is of the driver's own version."""
    files = {"/usr/share/nvidia-open/version": f"{version}\n", "/usr/bin/nvidia-smi": NVIDIA_SMI}
    return [
        Deb("nvidia-open", f"{version}-1", files),
        Deb("nvidia-persistenced", f"{version}-1", units=("nvidia-persistenced.service",)),
        Deb("nvidia-fabricmanager", f"{version}-1", units=("nvidia-fabricmanager.service",)),
    ]


ARCHIVE = (
    Deb("dkms"),
    Deb("hailo-h10-all", files={"/usr/bin/hailortcli": HAILORTCLI}, relations="Conflicts: hailo-all\n"),
    *driver(DRIVER),
    *driver(NEWER),
    Deb("datacenter-gpu-manager-4-core", units=("nvidia-dcgm.service",)),
    Deb("datacenter-gpu-manager-exporter", units=("nvidia-dcgm-exporter.service",)),
    Deb("containerd", files={"/usr/bin/containerd": CONTAINERD}, units=("containerd.service",)),
    Deb("nvidia-container-toolkit", files={"/usr/bin/nvidia-ctk": NVIDIA_CTK}, units=("nvidia-cdi-refresh.path",)),
    Deb("runc"),
)
#: What the image has: the packages of another chip, a kubelet that serves, and who moves interrupts.
IMAGE = (
    Deb("hailo-all", files={"/usr/bin/hailortcli": "#!/bin/sh\nexit 1\n"}),
    Deb("kubelet", units=("kubelet.service",)),
    Deb("irqbalance", units=("irqbalance.service",)),
)


def prepared(folder: Path) -> list[str]:
    """Make all that in *folder*; the commands that turn a mount namespace into that machine."""
    archive, image, programs = folder / "archive", folder / "image", folder / "programs"
    for each in (archive, image, programs):
        each.mkdir()
    (archive / "Packages").write_text("".join(deb.build(archive) for deb in ARCHIVE))
    for deb in IMAGE:
        deb.build(image)
    for name, text in {
        "usr/bin/systemctl": SYSTEMCTL,
        "usr/sbin/update-grub": UPDATE_GRUB,
        "usr/bin/udevadm": '#!/bin/sh\ntest "$*" = "control --reload"\n',
        "usr/sbin/modprobe": "#!/bin/sh\nmkdir -p /sys/module/$2\n",
        "starts/kubelet.service": KUBELET,
    }.items():
        path = programs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    hardware(folder)
    layers = "for top in etc usr var boot; do mkdir -p /run/o/$top/upper /run/o/$top/work && mount -t overlay overlay"
    return [
        "mkdir /run/lower && mount --bind / /run/lower",
        f"{layers} -o lowerdir=/$top,upperdir=/run/o/$top/upper,workdir=/run/o/$top/work /$top; done",
        "for each in pinion dpkg apt; do mount -t tmpfs none /var/lib/$each; done",
        "cd /var/lib/dpkg && mkdir info updates triggers alternatives && touch status available",
        "rm -rf /etc/apt/* /etc/default/grub.d && mkdir -p /etc/apt/preferences.d /etc/udev/rules.d",
        f"echo 'deb [trusted=yes] file:{archive} ./' >/etc/apt/sources.list && echo 'APT::Sandbox::User \"root\";' >/etc/apt/apt.conf",
        f"mount --bind {folder}/sys /sys && mount --bind {folder}/proc/irq /proc/irq",
        "mkdir -p /var/lib/prometheus/node-exporter",
        "echo BOOT_IMAGE=/vmlinuz >/run/cmdline && mount --bind /run/cmdline /proc/cmdline",
        f"cp -r {programs}/usr/. /usr/ && cp -r {programs}/starts /run/ && mkdir /run/units",
        f"dpkg -i {image}/*.deb >/dev/null && update-grub",
        "for unit in kubelet irqbalance; do systemctl enable $unit.service && systemctl start $unit.service; done",
    ]


def hardware(folder: Path) -> None:
    """The sysfs and the interrupts of a dgx-h100, and of a HAT."""
    machine, server = Machine(folder), load().servers["dgx-h100"]
    assert server.numa is not None
    for number, node in enumerate(server.numa.nodes):
        path = machine.sys / f"devices/system/node/node{number}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(f"{node.cpus}\n")
    for count, port in enumerate(server.rdma_ports):
        assert port.pci is not None
        machine.device(port.pci, "0x15b3", "0x020700", port.numa_node or 0, range(100 + 10 * count, 104 + 10 * count))
    for count in range(server.gpus):
        machine.device(f"0000:{count + 1:02x}:00.0", "0x10de", "0x030200", count // 4, range(300 + count, 301 + count))
    hat = machine.device("0001:01:00.0", "0x1e60", "0x120000", -1)
    (hat / "current_link_speed").write_text("8.0 GT/s PCIe\n")
    (machine.sys / "devices/system/cpu").mkdir(parents=True)
    for name in ("isolated", "nohz_full"):
        (machine.sys / f"devices/system/cpu/{name}").write_text("\n")
