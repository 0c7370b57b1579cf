"""The concern `pi_tuning`: what makes a Raspberry Pi answer sooner and its SD card live longer.

The network parameters belong together. The kernel keeps packets in the backlog only where they are handed from the core that took the
interrupt to another one, so `net.core.netdev_max_backlog` counts for nothing without receive packet steering (RPS).
"""

from __future__ import annotations

from pinion.plan.concerns.node_metrics import COLLECTOR
from pinion.plan.concerns.node_metrics import FOLDER as TEXTFILES
from pinion.plan.concerns.power_thermal import SERVICE as POWER_THERMAL
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile, HostSysctl, HostUnit
from pinion.plan.texts import kept_by, sysctl_lines, unit_text
from pinion.site.catalog import Evidence
from pinion.site.node_concerns import PiTuning
from pinion.site.quantities import fraction

NAME = "pi_tuning"
#: After os_tuning's 80.
SYSCTL_FILE = "/etc/sysctl.d/82-pinion-pi-tuning.conf"
UNIT = "pinion-pi-tuning.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
JOURNAL_FILE = "/etc/systemd/journald.conf.d/60-pinion-pi-tuning.conf"
SWAP_FILE = "/etc/rpi/swap.conf.d/60-pinion.conf"
ZRAM_FILE = "/etc/systemd/zram-generator.conf"
ZRAM_UNIT = "systemd-zram-setup@zram0.service"
ZRAM_SWAP = "dev-zram0.swap"
ZRAM_RESET_FILE = f"/etc/systemd/system/{ZRAM_UNIT}.d/10-pinion.conf"
ZRAM_PACKAGE = "systemd-zram-generator"

BACKLOG_KEY = "net.core.netdev_max_backlog"
BACKLOG = "5000"
BACKLOG_SOURCE = "Pi 5 tuning of the edge design: packets wait here when one core takes all interrupts of the only NIC (default 1000)"
#: zram-generator.conf(5), zram-size: half of the memory.
DEFAULT_ZRAM = "50%"
ZRAM_ALGORITHM = "lz4"
#: Flows that receive flow steering remembers: scaling.rst suggests 32768 for a moderately loaded server.
_FLOWS = 32768

#: Folders that are written to all the time, in memory instead: systemd.unit(5) says how a mount unit is called after its folder.
LOGS, LOGS_MOUNT = "/var/log", "var-log.mount"
TEXTFILES_MOUNT = "var-lib-prometheus-node\\x2dexporter.mount"
#: MiB that each may grow to. Logs: two of 5 MiB for each of some pods (edge_cluster tells the kubelet so), and what Debian keeps
#: of its own. A textfile has some 10 KiB.
_LOGS_SIZE, _TEXTFILES_SIZE = 100, 8

_NET_SYSCTL = "Linux Documentation/admin-guide/sysctl/net.rst"
_VM_SYSCTL = "Linux Documentation/admin-guide/sysctl/vm.rst"
_SCALING = "Linux Documentation/networking/scaling.rst"
_NETWORK = (
    (BACKLOG_KEY, BACKLOG, BACKLOG_SOURCE),
    (
        "net.core.netdev_budget",
        "600",
        f"{_NET_SYSCTL}: packets taken in one polling cycle, twice the default of 300, so that a burst is not cut in two",
    ),
    (
        "net.core.rps_sock_flow_entries",
        str(_FLOWS),
        f"{_SCALING}: receive flow steering sends a packet to the core whose thread waits for it; as many entries as the only queue has",
    ),
)
_WEAR = (
    (
        "vm.dirty_background_ratio",
        "5",
        f"{_VM_SYSCTL}: half of the default of 10, so that a slow card is written early and evenly",
    ),
    (
        "vm.dirty_ratio",
        "10",
        f"{_VM_SYSCTL}: half of the default of 20: no writer may pile up more than the card takes in seconds",
    ),
    (
        "vm.dirty_expire_centisecs",
        "6000",
        f"{_VM_SYSCTL}: a changed page waits 60 s instead of 30, so that what changes often is written half as often",
    ),
    (
        "vm.dirty_writeback_centisecs",
        "1500",
        f"{_VM_SYSCTL}; Linux Documentation/admin-guide/laptops/laptop-mode.rst: writers wake every 15 s instead of every 5",
    ),
)
_COMPRESSED = (
    (
        "vm.swappiness",
        "133",
        f"{_VM_SYSCTL}: its own example of swap twice as fast as the file system, which compressed memory at least is beside an SD card",
    ),
    ("vm.page-cluster", "0", f"{_VM_SYSCTL}: one page at a time, for compressed memory has no seek time to save"),
)


def pi_tuning(host: HostContext) -> Concern | None:
    """The concern for *host*: Pis only."""
    settings = host.settings.pi_tuning
    if settings is None or not applies(host):
        return None
    zram = zram_size(host, settings)
    stated = (*_NETWORK, *_WEAR, *(_COMPRESSED if zram else ()))
    sysctls = tuple(
        HostSysctl(key=key, value=value, source=source, namespaced=False, live=not host.lab)
        for key, value, source in stated
    )
    files = [
        HostFile(path=SYSCTL_FILE, content=sysctl_lines(NAME, sysctls)),
        _unit_file(host, settings),
        _swap_file(host),
        HostFile(path=JOURNAL_FILE, content=_journal(settings), restart=("systemd-journald.service",)),
    ]
    if zram:
        files += [_zram_reset_file(host), _zram_file(host, zram)]
    mounts = _mounts(host, settings)
    files += [_mount_file(*mount) for mount in mounts]
    return Concern(
        name=NAME,
        packages=(ZRAM_PACKAGE,) if zram else (),
        packages_absent=("dphys-swapfile",),
        files=tuple(files),
        sysctls=sysctls,
        units=(
            *(HostUnit(name=name, enabled=True, active=True) for name, _, _ in mounts),
            HostUnit(name=UNIT, enabled=True, active=not host.lab),
        ),
        claims=(*(_in_memory(folder) for _, folder, _ in mounts), *_claims(host, settings, zram)),
    )


def applies(host: HostContext) -> bool:
    """Whether *host* gets it."""
    return host.settings.pi_tuning is not None and host.kind is DeviceKind.PI


def zram_size(host: HostContext, settings: PiTuning) -> float:
    """Swap in compressed memory as a share of the memory; 0 for none."""
    if settings.zram is not None:
        return fraction(settings.zram)
    cluster = host.site.kubernetes
    return 0.0 if cluster is not None and cluster.pis_join else fraction(DEFAULT_ZRAM)


def steering_mask(cores: int) -> str:
    """The CPUs that packets are steered to, as the kernel's hexadecimal mask: all but CPU 0, which takes the interrupts."""
    return f"{(1 << cores) - 2:x}"


def _unit_file(host: HostContext, settings: PiTuning) -> HostFile:
    assert host.board is not None  # every Pi has one
    interface = host.board.port.name
    queue = f"/sys/class/net/{interface}/queues/rx-0"
    policies = "/sys/devices/system/cpu/cpufreq/policy*"
    # where the kernel scales no frequency (another board's kernel, an emulated machine) the claim says so, and the rest holds all the same
    governor = f'for policy in {policies}; do test ! -e "$$policy" || echo {settings.governor} >"$$policy/scaling_governor"; done'
    content = unit_text(
        NAME,
        Unit=[
            "Description=CPU governor, packet steering and mount options of a Raspberry Pi",
            "# A container has none of these of its own.",
            "ConditionVirtualization=!container",
            f"Wants=sys-subsystem-net-devices-{interface}.device",
            f"After=sys-subsystem-net-devices-{interface}.device local-fs.target",
        ],
        Service=[
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"# {_SCALING}: the only receive queue interrupts CPU 0; its packets are worked on by the others.",
            f"ExecStart=/bin/sh -c 'echo {steering_mask(host.board.cores)} >{queue}/rps_cpus'",
            f"ExecStart=/bin/sh -c 'echo {_FLOWS} >{queue}/rps_flow_cnt'",
            "# Linux Documentation/admin-guide/pm/cpufreq.rst",
            f"ExecStart=/bin/sh -c '{governor}'",
            "# mount(8): reading a file then writes nothing.",
            "ExecStart=/usr/bin/mount -o remount,noatime /",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )
    return HostFile(path=UNIT_FILE, content=content, restart=(UNIT,))


def _journal(settings: PiTuning) -> str:
    """journald.conf(5). How large it may grow is another concern's."""
    return f"{kept_by(NAME)}\n[Journal]\nStorage={settings.journal}\n"


def _mounts(host: HostContext, settings: PiTuning) -> list[tuple[str, str, int]]:
    """Mount unit, folder and MiB of what lies in memory."""
    logs = [(LOGS_MOUNT, LOGS, _LOGS_SIZE)] if settings.journal == "volatile" else []
    # Written anew every few seconds, and read by who asks the exporter.
    textfiles = [(TEXTFILES_MOUNT, TEXTFILES, _TEXTFILES_SIZE)] if host.settings.node_metrics is not None else []
    return [*logs, *textfiles]


def _mount_file(name: str, folder: str, size: int) -> HostFile:
    """systemd.mount(5), tmpfs(5). A changed size is a remount, which loses nothing."""
    collector = f"{COLLECTOR}.service"
    writes = [
        "# What lay there before is hidden: the collector writes anew.",
        f"Wants={collector}",
        f"Before={collector}",
    ]
    content = unit_text(
        NAME,
        Unit=[
            f"Description={folder} in memory, to spare the card",
            *(writes if folder == TEXTFILES else ()),
        ],
        Mount=[
            "What=tmpfs",
            f"Where={folder}",
            "Type=tmpfs",
            f"Options=mode=0755,size={size}M,nosuid,nodev,noexec",
            "# Who holds a file open there does not keep it from being taken away.",
            "LazyUnmount=yes",
        ],
        Install=[
            "WantedBy=local-fs.target",
        ],
    )
    # A service that runs on, with this folder open to it, would go on writing below the mount.
    writer = (POWER_THERMAL,) if folder == TEXTFILES else ()
    return HostFile(path=f"/etc/systemd/system/{name}", content=content, notify=(name,), restart=writer)


def _in_memory(folder: str) -> HostClaim:
    return HostClaim(
        name=f"memory.{folder}",
        claim=f"{folder} lies on",
        command=f"findmnt -no FSTYPE --mountpoint {folder} || echo the card",
        expected="tmpfs",
    )


def _swap_file(host: HostContext) -> HostFile:
    """Raspberry Pi OS (trixie) makes swap by rpi-swap: swap.conf(5), read at boot."""
    return HostFile(
        path=SWAP_FILE,
        content=f"{kept_by(NAME)}\n[Main]\nMechanism=none\n",
        needs_reboot=not host.lab,
        evidence=Evidence.RENDERED if host.lab else None,
    )


def _zram_anew(host: HostContext) -> tuple[str, ...]:
    """Commands that bring zram to what its files say, or away with them.

    The package's own configuration may have it running already: systemd starts a swap that swap.target wants with the next unit that is
    started, a login's say. One that runs is not restarted: systemd then starts the swap while the device is taken down and set up, and
    gives up (start-limit-hit). It is stopped, udev is let finish with the device, and then it is started. A stop that such a start
    cancels is said again.
    """
    if host.lab:
        return ()
    units = f"{ZRAM_SWAP} {ZRAM_UNIT}"
    stop = f"for try in 1 2 3; do systemctl stop {units} && break; done"
    start = f"if [ -e {ZRAM_FILE} ]; then systemctl start {ZRAM_SWAP}; fi"
    return ("systemctl daemon-reload", f"{stop}; udevadm settle; systemctl reset-failed {units}; {start}")


def _zram_shaping(host: HostContext, path: str, lines: list[str]) -> HostFile:
    """A file that zram is made by: a change makes it anew."""
    evidence = Evidence.RENDERED if host.lab else None
    return HostFile(path=path, content="\n".join(lines), run=_zram_anew(host), evidence=evidence)


def _zram_reset_file(host: HostContext) -> HostFile:
    """A way to take the device down that waits for udev; without, the unit fails whenever udev looks at the device just then."""
    lines = [
        kept_by(NAME),
        "[Service]",
        "# The kernel resets no device that is open (EBUSY), and udev opens one whenever a writer has closed it, as swapoff does.",
        "ExecStop=",
        "ExecStop=/bin/sh -c 'until /usr/lib/systemd/system-generators/zram-generator --reset-device %i; do sleep 0.5; done'",
        "TimeoutStopSec=60s",
        "",
    ]
    return _zram_shaping(host, ZRAM_RESET_FILE, lines)


def _zram_file(host: HostContext, zram: float) -> HostFile:
    """zram-generator.conf(5); its generator does nothing in a container."""
    lines = [
        kept_by(NAME),
        "[zram0]",
        f"zram-size = ram * {zram:g}",
        f"# Linux Documentation/admin-guide/blockdev/zram.rst; {ZRAM_ALGORITHM} costs least where every core is busy decoding",
        f"compression-algorithm = {ZRAM_ALGORITHM}",
        "swap-priority = 100",
        "",
    ]
    return _zram_shaping(host, ZRAM_FILE, lines)


def _claims(host: HostContext, settings: PiTuning, zram: float) -> tuple[HostClaim, ...]:
    """What only hardware can show; a container shows its host's processors, swap and root file system."""
    if host.lab:
        return ()
    assert host.board is not None  # every Pi has one
    queue = f"/sys/class/net/{host.board.port.name}/queues/rx-0"
    algorithm = HostClaim(
        name="zram",
        claim="compressed memory is compressed by",
        command="sed 's/^.*\\[\\(.*\\)\\].*$/\\1/' /sys/block/zram0/comp_algorithm",
        expected=ZRAM_ALGORITHM,
    )
    return (
        HostClaim(
            name="governor",
            claim="the governor of every core is",
            command="cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor | sort -u",
            expected=settings.governor,
        ),
        HostClaim(
            name="steering",
            claim="received packets are worked on by the CPUs (mask)",
            command=f"sed 's/^0*//' <{queue}/rps_cpus",
            expected=steering_mask(host.board.cores),
        ),
        HostClaim(
            name="noatime",
            claim="the root file system notes times of reading",
            command="findmnt -no OPTIONS / | tr , '\\n' | grep -qx noatime && echo no || echo yes",
            expected="no",
        ),
        HostClaim(
            name="swap",
            claim="swap lies on",
            command="swapon --noheadings --show=NAME | sed 's/[0-9]*$//' | sort -u | grep . || echo nowhere",
            expected="/dev/zram" if zram else "nowhere",
            after_boot=(SWAP_FILE,),
        ),
        *((algorithm,) if zram else ()),
    )
