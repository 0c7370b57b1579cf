"""The concern `os_tuning`: kernel parameters, packages, users and a hardened SSH server, for every host.

Every value carries its source. Which of them a kind of host gets, and which of them a container can hold, is decided here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinion.plan.concerns import gpu_tuning, pi_tuning
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile, HostSysctl, HostUnit, HostUser
from pinion.site.catalog import Platform
from pinion.site.model import Site

NAME = "os_tuning"
#: Read at boot in lexical order: before the files numbered 90 and more, where a later concern may state a stronger value.
SYSCTL_FILE = "/etc/sysctl.d/80-pinion-os-tuning.conf"
#: sshd takes the first value that it reads, and Debian's sshd_config reads this folder first.
SSHD_FILE = "/etc/ssh/sshd_config.d/10-pinion.conf"
#: Administrators' keys lie where only root writes, so that a stolen session cannot add one.
KEYS_FOLDER = "/etc/ssh/authorized_keys.d"
#: Authorities whose certificates count, and for whom a certificate must be made out, one file a user.
AUTHORITIES_FILE = "/etc/ssh/pinion-user-ca.pub"
PRINCIPALS_FOLDER = "/etc/ssh/auth_principals.d"
ADMIN_USER = "ops"
EDGE_USER = "edge-runtime"

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

#: sshd_config(5). Keyword, value, and the source of the choice.
_SSHD = (
    ("PermitRootLogin", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("PasswordAuthentication", "no", "keys only: a site has no passwords"),
    ("KbdInteractiveAuthentication", "no", "keys only: PAM would ask for a password here"),
    ("PermitEmptyPasswords", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("X11Forwarding", "no", "CIS Debian Linux 12 Benchmark 5.1"),
    ("AllowAgentForwarding", "no", "an agent forwarded to a host can be used by its root"),
    ("LoginGraceTime", "30", "CIS Debian Linux 12 Benchmark 5.1 asks for 60 seconds or less"),
    ("ClientAliveInterval", "60", "with the next: a dead session ends after three minutes"),
    ("ClientAliveCountMax", "3", "sshd_config(5), its default"),
    ("LogLevel", "VERBOSE", "the journal then says which key logged in"),
    (
        "AuthorizedKeysFile",
        f".ssh/authorized_keys {KEYS_FOLDER}/%u",
        "the image's own key, and the site's administrators",
    ),
)
#: Where the site has an authority.
_SSHD_AUTHORITY = (
    (
        "TrustedUserCAKeys",
        AUTHORITIES_FILE,
        "sshd_config(5): a certificate that one of these keys signed is as good as a key",
    ),
    (
        "AuthorizedPrincipalsFile",
        f"{PRINCIPALS_FOLDER}/%u",
        "sshd_config(5): what a certificate must be made out to; a user without a file takes none",
    ),
)
#: The candidate is judged as part of the whole configuration, in the place where sshd will read it: first.
_SSHD_VALIDATE = "cat %s /etc/ssh/sshd_config | /usr/sbin/sshd -t -f /dev/stdin"
#: What the running server must say of itself (sshd -T prints keywords in lower case).
_SSHD_CLAIMED = ("permitrootlogin", "passwordauthentication", "kbdinteractiveauthentication", "x11forwarding")


def os_tuning(host: HostContext) -> Concern:
    """The concern for *host*: every host has it."""
    kind, platform, site = host.kind, host.platform, host.site
    sysctls = tuple(sysctl for sysctl in _sysctls(kind, platform, site) if sysctl.key not in _left(host))
    return Concern(
        name=NAME,
        packages=tuple(sorted(name for name, kinds in _PACKAGES.items() if kind in kinds)),
        packages_absent=tuple(sorted(name for name, kinds in _PACKAGES_ABSENT.items() if kind in kinds)),
        users=tuple(_users(kind, site)),
        files=(_sysctl_file(sysctls), *_admin_files(site), _sshd_file(site)),
        sysctls=sysctls,
        units=(HostUnit(name="ssh.service", enabled=True, active=True),),
        claims=_claims(site),
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


def _users(kind: DeviceKind, site: Site) -> list[HostUser]:
    found = []
    if site.access.admins or site.access.authorities:
        found.append(
            HostUser(
                name=ADMIN_USER,
                system=False,
                comment="Site administrators",
                home=f"/home/{ADMIN_USER}",
                create_home=True,
                shell="/bin/bash",
                groups=("adm", "systemd-journal"),
            )
        )
    if kind is DeviceKind.PI:
        found.append(
            HostUser(
                name=EDGE_USER,
                system=True,
                comment="Edge inference runtime",
                home=f"/var/lib/{EDGE_USER}",
                create_home=False,
                shell="/usr/sbin/nologin",
            )
        )
    return found


def _admin_files(site: Site) -> tuple[HostFile, ...]:
    access = site.access
    listed = []
    if access.admins:
        listed.append((f"{KEYS_FOLDER}/{ADMIN_USER}", access.admins))
    if access.authorities:
        listed += [(AUTHORITIES_FILE, access.authorities), (f"{PRINCIPALS_FOLDER}/{ADMIN_USER}", access.principals)]
    if not listed:
        return ()
    rights = HostFile(
        path=f"/etc/sudoers.d/60-pinion-{ADMIN_USER}",
        mode="0440",
        content=f"{ADMIN_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n",
        validate_command="/usr/sbin/visudo -cf %s",
    )
    return (*(HostFile(path=path, content="".join(f"{line}\n" for line in lines)) for path, lines in listed), rights)


def _sshd(site: Site) -> tuple[tuple[str, str, str], ...]:
    """sshd's keywords, values and sources on a host of *site*."""
    return (*_SSHD, *_SSHD_AUTHORITY) if site.access.authorities else _SSHD


def _sshd_file(site: Site) -> HostFile:
    lines = ["# Kept by Pinion (concern os_tuning); changes made here are undone by the next run."]
    for keyword, value, source in _sshd(site):
        lines += [f"# {source}", f"{keyword} {value}"]
    return HostFile(
        path=SSHD_FILE,
        mode="0600",
        content="\n".join(lines) + "\n",
        notify=("ssh.service",),
        validate_command=_SSHD_VALIDATE,
        confirm=True,
    )


def _claims(site: Site) -> tuple[HostClaim, ...]:
    stated = {keyword.lower(): value for keyword, value, _ in _sshd(site)}
    claimed = (*_SSHD_CLAIMED, "trustedusercakeys") if site.access.authorities else _SSHD_CLAIMED
    effective = [
        HostClaim(
            name=f"sshd.{keyword}",
            claim=f"sshd's effective {keyword} is",
            command=f"/usr/sbin/sshd -T 2>/dev/null | sed -n 's/^{keyword} //p'",
            expected=stated[keyword],
        )
        for keyword in claimed
    ]
    offered = (
        "ssh -o BatchMode=yes -o PreferredAuthentications=none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        " -o LogLevel=ERROR nobody@127.0.0.1 2>&1 | sed -n 's/.*Permission denied (\\(.*\\)).*/\\1/p'"
    )
    running = HostClaim(
        name="sshd.offered", claim="the running sshd offers these ways to log in", command=offered, expected="publickey"
    )
    return (*effective, running)
