"""The concern `gpu_tuning`: kernel parameters of GPU servers for long fat streams, in one file of exactly these keys."""

from __future__ import annotations

from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostFile, HostSysctl
from pinion.plan.texts import sysctl_lines

NAME = "gpu_tuning"
#: Read last of all files that Pinion places.
SYSCTL_FILE = "/etc/sysctl.d/99-gpu-tuning.conf"

_IP_SYSCTL = "Linux Documentation/networking/ip-sysctl.rst"
_NET_SYSCTL = "Linux Documentation/admin-guide/sysctl/net.rst"
#: 256 MiB: at 400 Gbit/s the bandwidth-delay product of a round trip of 5.4 ms.
_WINDOW = "268435456"
#: Key, value, source, and whether a network namespace has its own.
_SYSCTLS = (
    (
        "net.core.rmem_max",
        _WINDOW,
        f"{_NET_SYSCTL}; GPU server tuning of the pool design: a stream of 400 Gbit/s fills 256 MiB in 5.4 ms",
        False,
    ),
    ("net.core.wmem_max", _WINDOW, f"{_NET_SYSCTL}; as net.core.rmem_max", False),
    (
        "net.ipv4.tcp_rmem",
        f"4096 87380 {_WINDOW}",
        f"{_IP_SYSCTL}; smallest, first and largest receive window: the largest is net.core.rmem_max",
        True,
    ),
    (
        "net.ipv4.tcp_wmem",
        f"4096 65536 {_WINDOW}",
        f"{_IP_SYSCTL}; smallest, first and largest send buffer: the largest is net.core.wmem_max",
        True,
    ),
    (
        "net.core.netdev_max_backlog",
        "250000",
        f"{_NET_SYSCTL}; GPU server tuning of the pool design: bursts of several fast NICs wait here for one core",
        False,
    ),
    (
        "net.ipv4.tcp_mtu_probing",
        "1",
        f"{_IP_SYSCTL}; RFC 4821: a path with a smaller MTU is found out although its ICMP answers are lost",
        True,
    ),
)
#: Parameters that other concerns leave to this one on the hosts that have it.
KEYS = frozenset(key for key, *_ in _SYSCTLS)


def gpu_tuning(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers only."""
    if not applies(host):
        return None
    sysctls = tuple(
        HostSysctl(key=key, value=value, source=source, namespaced=namespaced, live=namespaced or not host.lab)
        for key, value, source, namespaced in _SYSCTLS
    )
    return Concern(name=NAME, files=(HostFile(path=SYSCTL_FILE, content=sysctl_lines(NAME, sysctls)),), sysctls=sysctls)


def applies(host: HostContext) -> bool:
    """Whether *host* gets it."""
    return host.settings.gpu_tuning is not None and host.kind is DeviceKind.GPU_SERVER
