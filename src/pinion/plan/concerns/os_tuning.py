"""The concern `os_tuning`: kernel parameters and packages, for every host.

Every value carries its source. Which of them a kind of host gets, and which of them a container can hold, is decided here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.plan.concerns import gpu_tuning, pi_tuning
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostFile, HostSysctl
from pinion.site.catalog import Platform
from pinion.site.model import Site

NAME = "os_tuning"
#: Read at boot in lexical order: before the files numbered 90 and more, where a later concern may state a stronger value.
SYSCTL_FILE = "/etc/sysctl.d/80-pinion-os-tuning.conf"

_ALL = frozenset({DeviceKind.PI, DeviceKind.GPU_SERVER, DeviceKind.MANAGEMENT_HOST})
_NODES = frozenset({DeviceKind.PI, DeviceKind.GPU_SERVER})
_PIS = frozenset({DeviceKind.PI})
_IP_SYSCTL = "Linux Documentation/networking/ip-sysctl.rst"


@dataclass(frozen=True, slots=True)
class _Tunable:
    """One kernel parameter. *on* is where it belongs; *cluster* limits it to hosts of a site with a Kubernetes cluster."""

    key: str
    value: str
    source: str
    namespaced: bool = True
    on: frozenset[DeviceKind] = _ALL
    cluster: bool = False


_TUNABLES = (
    _Tunable(
        "net.core.somaxconn",
        "8192",
        "Twice the kernel's default (4096 since Linux 5.4): a burst of clients waits in the listen queue instead of retrying",
    ),
    _Tunable(
        "net.ipv4.tcp_max_syn_backlog", "8192", f"{_IP_SYSCTL}: the half-open queue, as long as net.core.somaxconn"
    ),
    _Tunable(
        "net.ipv4.tcp_slow_start_after_idle",
        "0",
        f"{_IP_SYSCTL}; RFC 2861: streams between router and gateway pause between requests and must not restart slowly",
    ),
    _Tunable(
        "net.ipv4.tcp_mtu_probing",
        "1",
        f"{_IP_SYSCTL}; RFC 4821: a link with a smaller MTU is found out although its ICMP answers are lost",
    ),
    _Tunable(
        "net.ipv4.tcp_keepalive_time",
        "60",
        f"{_IP_SYSCTL}: with the two below a dead peer is noticed after 2 minutes, by default after 2 hours 11 minutes",
    ),
    _Tunable("net.ipv4.tcp_keepalive_intvl", "10", f"{_IP_SYSCTL}: seconds between keepalive probes"),
    _Tunable("net.ipv4.tcp_keepalive_probes", "6", f"{_IP_SYSCTL}: lost probes until the connection is given up"),
    _Tunable("net.ipv4.conf.all.accept_redirects", "0", "CIS Debian Linux 12 Benchmark 3.3: routes come from the plan"),
    _Tunable(
        "net.ipv4.conf.default.accept_redirects", "0", "CIS Debian Linux 12 Benchmark 3.3: routes come from the plan"
    ),
    _Tunable("net.ipv4.conf.all.send_redirects", "0", "CIS Debian Linux 12 Benchmark 3.3: hosts teach nobody routes"),
    _Tunable(pi_tuning.BACKLOG_KEY, pi_tuning.BACKLOG, pi_tuning.BACKLOG_SOURCE, namespaced=False, on=_PIS),
    _Tunable(
        "kernel.panic",
        "10",
        "Linux Documentation/admin-guide/sysctl/kernel.rst; the kubelet wants this value: nobody stands at a rack to press reset",
        namespaced=False,
    ),
    _Tunable(
        "kernel.panic_on_oops",
        "1",
        "Linux Documentation/admin-guide/sysctl/kernel.rst; the kubelet wants this value",
        namespaced=False,
    ),
    _Tunable(
        "vm.overcommit_memory",
        "1",
        "Kubernetes: the kubelet wants this value (--protect-kernel-defaults refuses any other)",
        namespaced=False,
        on=_NODES,
        cluster=True,
    ),
    _Tunable(
        "fs.inotify.max_user_instances",
        "1024",
        "inotify(7): each followed container log takes one; the default of 128 is too few beside the kubelet's 110 pods",
        namespaced=False,
        on=_NODES,
        cluster=True,
    ),
    _Tunable(
        "fs.inotify.max_user_watches",
        "524288",
        "inotify(7): the kernel's default depends on memory (8192 to 1048576); half of its ceiling, the same on every board",
        namespaced=False,
        on=_NODES,
        cluster=True,
    ),
)

#: Package to the kinds of host that get it.
_PACKAGES = {
    "ethtool": _ALL,  # link speed, rings and offloads are read and set with it
    "tcpdump": _ALL,  # a fault on the wire is looked at without installing anything first
    "numactl": frozenset({DeviceKind.GPU_SERVER}),  # which GPU and NIC sit at which NUMA node
    "pciutils": frozenset({DeviceKind.GPU_SERVER}),  # PCIe generation and width of GPUs and NICs
}
_PACKAGES_ABSENT = {
    "inetutils-telnetd": _ALL,  # passwords in clear
    "rpcbind": _ALL,  # listens on every interface, and nothing of a site uses it
    "avahi-daemon": _PIS,  # part of some Raspberry Pi images; names come from the plan
    "triggerhappy": _PIS,  # part of some Raspberry Pi images; reacts to plugged-in keyboards
}


def os_tuning(host: HostContext) -> Concern:
    """The concern for *host*: every host has it."""
    kind, platform, site = host.kind, host.platform, host.site
    sysctls = tuple(sysctl for sysctl in _sysctls(kind, platform, site) if sysctl.key not in _left(host))
    return Concern(
        name=NAME,
        packages=tuple(sorted(name for name, kinds in _PACKAGES.items() if kind in kinds)),
        packages_absent=tuple(sorted(name for name, kinds in _PACKAGES_ABSENT.items() if kind in kinds)),
        files=(_sysctl_file(sysctls),),
        sysctls=sysctls,
    )


def _left(host: HostContext) -> frozenset[str]:
    """The parameters that a more special concern of *host* states; each has one owner."""
    left: frozenset[str] = frozenset()
    if pi_tuning.applies(host):
        left |= {pi_tuning.BACKLOG_KEY}
    if gpu_tuning.applies(host):
        left |= gpu_tuning.KEYS
    return left


def _sysctls(kind: DeviceKind, platform: Platform, site: Site) -> tuple[HostSysctl, ...]:
    return tuple(
        HostSysctl(
            key=tunable.key,
            value=tunable.value,
            source=tunable.source,
            namespaced=tunable.namespaced,
            live=tunable.namespaced or not platform.lab,
        )
        for tunable in _TUNABLES
        if kind in tunable.on and (site.kubernetes is not None or not tunable.cluster)
    )


def _sysctl_file(sysctls: tuple[HostSysctl, ...]) -> HostFile:
    lines = ["# Kept by Pinion (concern os_tuning); changes made here are undone by the next run.", ""]
    for sysctl in sysctls:
        lines += [f"# {sysctl.source}", f"{sysctl.key} = {sysctl.value}"]
    return HostFile(path=SYSCTL_FILE, content="\n".join(lines) + "\n")
