"""The settings of the hosts' concerns, as the site file states them under `concerns:`.

A key that is present (``{}`` is enough) gives the concern to every host that it applies to; an absent key means that no host has it, and
the next run takes back what it had placed. `access` and `os_tuning` are on every host and have no key; who may log in is stated in the
section `access`.

To add a concern: one `Statement` with its settings here, one field of `Concerns` (``base: Base | None = says("…", default=None)``), and
what `pinion.plan.hosts` says. Each default says where its value comes from.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pinion.site.node_concerns import (
    Accelerator,
    ContainerRuntime,
    CpuIsolation,
    EdgeCluster,
    EdgeRuntime,
    GpuDriver,
    GpuTuning,
    KubeNode,
    ModelStore,
    NicTuning,
    PiBoot,
    PiTuning,
    PowerThermal,
)
from pinion.site.statement import ArchiveUrl, AuthorityUrl, DnsLabel, Duration, Name, Statement, TimeWindow, says

#: IANA service names and port numbers: 0 is reserved.
Port = Annotated[int, Field(ge=1, le=65535)]


#: A suite (`trixie-security`, `stable/updates`), or a folder of the archive, which ends in a slash (sources.list(5)).
Suite = Annotated[
    str,
    StringConstraints(
        max_length=100, pattern=r"^(\./|/|[A-Za-z0-9][A-Za-z0-9._~+-]*(/[A-Za-z0-9][A-Za-z0-9._~+-]*)*/?)$"
    ),
]
Component = Annotated[
    str, StringConstraints(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*$")
]
#: A keyring that a package has put there.
KeyringPath = Annotated[
    str, StringConstraints(max_length=200, pattern=r"^(/[A-Za-z0-9][A-Za-z0-9._+-]*)+\.(gpg|pgp|asc)$")
]
#: Debian's own, of the package debian-archive-keyring, which apt itself needs.
DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class PackageSource(Statement):
    """An archive that hosts take packages from: one file of /etc/apt/sources.list.d, called after the source."""

    uri: ArchiveUrl = says("Where the archive is, such as `https://deb.example.org/debian`.")
    suites: Annotated[tuple[Suite, ...], Field(min_length=1)] = says(
        "Suites of it, such as `[trixie, trixie-updates]`; one that ends in `/` is a folder of an archive that has no suites."
    )
    components: Annotated[tuple[Component, ...], Field(min_length=1)] | None = says(
        "Components of the suites. Unstated: `[main]`, and none where the suites are folders.", default=None
    )
    key: Annotated[str, Field(max_length=65536)] | None = says(
        "OpenPGP public key that signs the archive, as `gpg --armor --export` prints it. Only for this archive it counts.",
        default=None,
    )
    keyring: KeyringPath | None = says(
        f"Keyring on the host instead of `key`. Unstated: Debian's, `{DEBIAN_KEYRING}`.", default=None
    )
    hosts: tuple[Name, ...] = says(
        "Who has it: `pis`, `gpu_servers`, `management_hosts`, groups of Pis, or hosts by name. Unstated: every host.",
        default=(),
    )


class Base(Statement):
    """What any Debian host has: packages and where they come from, time zone, locale, names, clock, journal limits, security updates."""

    time_zone: str = says(
        "Time zone of the hosts, from the IANA database. One for all, so that logs of hosts compare.", default="Etc/UTC"
    )
    locale: Annotated[str, Field(max_length=40)] = says(
        "Locale of the hosts, such as `C.UTF-8` or `de_DE.UTF-8`; any but `C.UTF-8` brings the package locales-all (over 200 MB).",
        default="C.UTF-8",
    )
    time_servers: tuple[str, ...] = says(
        "NTP servers, names or addresses. Unstated: the management hosts give the time to the others, and take it from Debian's pool.",
        default=(),
    )
    name_servers: tuple[str, ...] = says(
        "DNS servers by address, at most three, in the order in which hosts ask them. Unstated: what a host has stays; an image has none.",
        default=(),
    )
    package_sources: dict[DnsLabel, PackageSource] = says(
        "Where packages come from, by name. `debian` takes the place of what Debian's installer wrote, `raspi` of what Raspberry Pi OS "
        "brings; others come beside. Unstated: what a host has stays; an image of Debian packages has none.",
        default={},
    )
    step_limit: Duration = says(
        "Largest correction of a running host's clock; a larger one is refused and told (chrony's maxchange). At boot any is taken.",
        default="1000s",
    )
    journal_mib: Annotated[int, Field(ge=16, le=65536)] = says(
        "Most that the journal takes of a host's disk, in MiB.", default=256
    )
    update_window: TimeWindow = says(
        "When security updates are installed: `daily` or a day, then from-to in the hosts' time zone.",
        default="daily 02:00-05:00",
    )


class Watchdog(Statement):
    """The hardware watchdog, kept alive by systemd: a host that hangs resets itself."""

    timeout: Duration = says(
        "Time without a sign of life after which the hardware resets the host, 10s to 10min.", default="30s"
    )
    reboot_timeout: Duration = says(
        "Time that the last part of a shutdown may take before the hardware resets the host, 1min to 30min.",
        default="5min",
    )


class NodeMetrics(Statement):
    """Prometheus' node exporter on port 9100, with what Pinion knows of the host beside its own metrics."""

    interval: Duration = says("How often Pinion's own metrics are written, 15s to 1h.", default="1min")


#: A domain name (RFC 1123 labels), at most 200 characters: a host's own label comes before it. The last label has a letter: what ends in a
#: number is an address to whoever reads it (WHATWG URL, 3.5).
Domain = Annotated[
    str,
    StringConstraints(
        max_length=200,
        pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[0-9]{0,20}[a-z]([a-z0-9-]{0,40}[a-z0-9])?$",
    ),
]
#: systemd.unit(5).
UnitName = Annotated[str, StringConstraints(max_length=255, pattern=r"^[A-Za-z0-9:_.@-]+\.[a-z]+$")]


class SiteCa(Statement):
    """The site's certificate authority (step-ca) on a management host, the first by name. Its root is made on the operator's machine."""

    port: Port = says("TCP port that hosts ask for certificates on; 9000 is step-ca's customary one.", default=9000)


#: The domain that ICANN keeps for private use (Board resolution of 29 July 2024, after SSAC 113).
PRIVATE_DOMAIN = "internal"


class Identity(Statement):
    """A certificate from the site's authority on every host, renewed by itself."""

    lifetime: Duration = says(
        "How long a certificate is good, 15min to 2160h. A host that is off for longer needs a new token. A week lets a host sleep over "
        "a holiday, and ends a revoked one soon.",
        default="168h",
    )
    domain: Domain | None = says(
        "Domain of the hosts' names in certificates. Unstated: `<site>.internal`, which is kept for private use.",
        default=None,
    )
    authority: AuthorityUrl | None = says(
        "URL of a step-ca that is run elsewhere. Unstated: the site's own (`site_ca`).", default=None
    )
    reload: Annotated[tuple[UnitName, ...], Field(max_length=16)] = says(
        "Units that use the certificate; they are reloaded when there is a new one.", default=()
    )


#: What nft keeps of a rule's comment, in bytes: libnftnl's NFTNL_UDATA_COMMENT_MAXLEN is 128, with or without the end by its version.
COMMENT_BYTES = 127


class AllowedFlow(Statement):
    """A flow that Pinion does not know of: who may talk to which hosts, on which ports."""

    sources: Annotated[tuple[str, ...], Field(min_length=1)] = says("Networks by name, or prefixes.")
    hosts: Annotated[tuple[DnsLabel, ...], Field(min_length=1)] = says("Hosts, or groups of Pis, by name.")
    protocol: Literal["tcp", "udp"] = says("`tcp` or `udp`.", default="tcp")
    ports: Annotated[tuple[Port, ...], Field(min_length=1)] = says("Destination ports.")
    why: str = says("What for; it stands beside the rule.", default="")


class Firewall(Statement):
    """nftables from the plan's flows: who talks to whom, on which port; everything else is dropped."""

    operators: tuple[str, ...] = says(
        "Prefixes that people and controllers log in from, beside the management networks and the management hosts.",
        default=(),
    )
    allow: dict[DnsLabel, AllowedFlow] = says("Further flows, by name.", default={})


class Concerns(Statement):
    """What the hosts get, by concern."""

    base: Base | None = says(
        "Packages, time zone, locale, host name, clock, journal limits, security updates.", default=None
    )
    watchdog: Watchdog | None = says("The hardware watchdog.", default=None)
    node_metrics: NodeMetrics | None = says("Metrics of the hosts, for Prometheus.", default=None)
    site_ca: SiteCa | None = says("The site's certificate authority, on a management host.", default=None)
    identity: Identity | None = says("A certificate for every host.", default=None)
    firewall: Firewall | None = says("A firewall on every host, from the plan's flows.", default=None)
    pi_boot: PiBoot | None = says("On Pis: what the firmware reads, and what the kernel is started with.", default=None)
    pi_tuning: PiTuning | None = says("On Pis: network, CPU governor, swap, wear of SD cards.", default=None)
    gpu_tuning: GpuTuning | None = says("On GPU servers: kernel parameters for long fat streams.", default=None)
    cpu_isolation: CpuIsolation | None = says(
        "On GPU servers: cores for workloads, cores for interrupts, and the pages that stay.", default=None
    )
    nic_tuning: NicTuning | None = says(
        "On GPU servers: the RDMA NICs, as the traffic classes need them.", default=None
    )
    power_thermal: PowerThermal | None = says("On Pis: heat and power, for Prometheus and for routers.", default=None)
    accelerator: Accelerator | None = says("On Pis with a HAT: the packages of its chip.", default=None)
    model_store: ModelStore | None = says("On Pis: models by digest, signed, swapped at once.", default=None)
    edge_runtime: EdgeRuntime | None = says("On Pis: the program that answers requests.", default=None)
    edge_cluster: EdgeCluster | None = says("On Pis: a kubelet that joins the site's cluster.", default=None)
    kube_node: KubeNode | None = says("On GPU servers: the kubelet's CPU and topology managers.", default=None)
    container_runtime: ContainerRuntime | None = says(
        "On GPU servers: containerd with NVIDIA's runtime and devices by CDI.", default=None
    )
    gpu_driver: GpuDriver | None = says(
        "On GPU servers: NVIDIA's driver, GPU modes, metrics of the GPUs.", default=None
    )
