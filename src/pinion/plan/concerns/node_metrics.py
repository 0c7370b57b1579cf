"""The concern `node_metrics`: Prometheus' node exporter, fenced in, with what Pinion knows of the host beside its own metrics."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network, summarize_address_range

from pinion.plan.context import HostContext
from pinion.plan.flows import NODE_METRICS as PORT
from pinion.plan.model import Concern, HostClaim, HostFile, HostUnit
from pinion.plan.programs import program_file, program_path
from pinion.plan.texts import kept_by, unit_text
from pinion.site.concerns import NodeMetrics
from pinion.site.quantities import seconds

NAME = "node_metrics"
PACKAGE = "prometheus-node-exporter"
EXPORTER = f"{PACKAGE}.service"
#: Where Debian's package looks for textfiles.
FOLDER = "/var/lib/prometheus/node-exporter"
COLLECTOR = "pinion-node-metrics"

#: Pods come and go, each with a link and mounts of its own: they would be new time series for ever.
_ARGUMENTS = (
    f"--web.listen-address=:{PORT}",
    f"--collector.textfile.directory={FOLDER}",
    "--collector.filesystem.mount-points-exclude=^/(dev|proc|run|sys|var/lib/(containerd|kubelet))($|/)",
    "--collector.netdev.device-exclude=^(veth|lxc|cali)",
    "--collector.netclass.ignored-devices=^(veth|lxc|cali)",
)
#: systemd.exec(5) and systemd.resource-control(5): it reads files of the kernel and answers on one port, so nothing else is open to it.
_FENCE = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "# adjtimex only tells: without CAP_SYS_TIME nobody sets a clock by it. A call beyond these fails and does not kill.",
    "SystemCallFilter=@system-service adjtimex",
    "SystemCallErrorNumber=EPERM",
)


def node_metrics(host: HostContext) -> Concern | None:
    """The concern for *host*; None when the site does not state it."""
    settings = host.settings.node_metrics
    if settings is None:
        return None
    sources = (source for flow in host.flows if PORT in flow.ports for source in flow.sources)
    return _stated(settings, tuple(dict.fromkeys(sources)))


@lru_cache(maxsize=64)
def _stated(settings: NodeMetrics, asking: tuple[str, ...]) -> Concern:
    """The same for every host that the same *asking* sources fetch from."""
    return Concern(
        name=NAME,
        packages=(PACKAGE,),
        files=(
            program_file("node_metrics"),
            HostFile(path=f"/etc/systemd/system/{COLLECTOR}.service", content=_collector()),
            HostFile(path=f"/etc/systemd/system/{COLLECTOR}.timer", content=_timer(settings)),
            HostFile(
                path=f"/etc/default/{PACKAGE}",
                content=f'{kept_by(NAME)}\nARGS="{" ".join(_ARGUMENTS)}"\n',
                restart=(EXPORTER,),
            ),
            HostFile(
                path=f"/etc/systemd/system/{EXPORTER}.d/10-pinion.conf", content=_exporter(asking), restart=(EXPORTER,)
            ),
        ),
        units=(
            HostUnit(name=EXPORTER, enabled=True, active=True),
            HostUnit(name=f"{COLLECTOR}.timer", enabled=True, active=True),
        ),
        claims=_claims(),
    )


def _exporter(asking: tuple[str, ...]) -> str:
    """The unit's drop-in. Who may ask is held here as well as in the firewall, so that a host without one is not open."""
    prefixes = [prefix for source in asking for prefix in _prefixes(source)]
    return unit_text(
        NAME,
        Service=[
            "Restart=always",
            "RestartSec=5s",
            *_FENCE,
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX",
            "# The exporter needs some 20 MiB; a runaway collector must not take the host's memory.",
            "MemoryMax=128M",
            "TasksMax=64",
            "# The plan's flows: who fetches.",
            "IPAddressDeny=any",
            f"IPAddressAllow={' '.join(['localhost', *prefixes])}",
        ],
    )


def _prefixes(source: str) -> list[str]:
    """A source of a flow as prefixes: systemd knows no spans."""
    first, _, last = source.partition("-")
    if not last:
        return [str(ip_network(first))]
    start, end = ip_address(first), ip_address(last)
    if start.version == 4 and end.version == 4:
        return [str(prefix) for prefix in summarize_address_range(start, end)]
    if start.version == 6 and end.version == 6:
        return [str(prefix) for prefix in summarize_address_range(start, end)]
    raise ValueError(f"{source} mixes IPv4 and IPv6")


def _collector() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Pinion's own metrics of this host, for the node exporter",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path('node_metrics')} {FOLDER}",
            "TimeoutStartSec=60s",
            "# Root, because Pinion's notes are root's alone; of root's rights only that to write into the exporter's folder.",
            *(line for line in _FENCE if not line.startswith("CapabilityBoundingSet")),
            "CapabilityBoundingSet=CAP_DAC_OVERRIDE",
            "RestrictAddressFamilies=AF_UNIX",
            f"ReadWritePaths={FOLDER}",
            "Nice=10",
            "MemoryMax=64M",
        ],
    )


def _timer(settings: NodeMetrics) -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Pinion's own metrics of this host, again and again",
        ],
        Timer=[
            "OnBootSec=10s",
            f"OnUnitActiveSec={seconds(settings.interval):g}s",
            "AccuracySec=1s",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )


def _metric(name: str) -> str:
    """Shell that prints the value of the metric *name*. An exporter that was just started, and its first textfile, have ten seconds."""
    url = f"http://127.0.0.1:{PORT}/metrics"
    fetch = (
        f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\", timeout=10).read().decode())' 2>/dev/null"
    )
    return f'for i in $(seq 20); do v=$({fetch} | sed -n \'s/^{name} //p\'); [ -n "$v" ] && break; sleep 0.5; done; echo "$v"'


def _claims() -> tuple[HostClaim, ...]:
    return (
        HostClaim(
            name="answers",
            claim="the exporter gives Pinion's own metrics, unread ones numbering",
            command=_metric("pinion_collector_errors"),
            expected="0",
        ),
        HostClaim(
            name="textfiles",
            claim="textfiles that the exporter could not read number",
            command=_metric("node_textfile_scrape_error"),
            expected="0",
        ),
        HostClaim(
            name="fenced",
            claim="the exporter runs with",
            command=f"systemctl show --property=ProtectSystem,NoNewPrivileges --value {EXPORTER} | sort | tr '\\n' ' ' | sed 's/ $//'",
            expected="strict yes",
        ),
        HostClaim(
            name="user",
            claim="the exporter runs as",
            command=f"ps -o user= -p $(systemctl show --property=MainPID --value {EXPORTER})",
            expected="prometheus",
        ),
    )
