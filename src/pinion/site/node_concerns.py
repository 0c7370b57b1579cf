"""The settings of the concerns that only Raspberry Pis or only GPU servers have, as the site file states them under `concerns:`.

A setting that no public document gives a value for is unstated by default, and the kernel's or the maker's own value then stays.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pinion.site.quantities import fraction
from pinion.site.statement import (
    ArtefactUrl,
    Duration,
    ImageReference,
    Name,
    Percentage,
    PublicKey,
    Sha256,
    Statement,
    says,
)


class PiTuning(Statement):
    """Network backlog and interrupt spreading, CPU governor, swap in compressed memory, less wear on SD cards."""

    governor: Literal["performance", "schedutil", "ondemand"] = says(
        "CPU frequency governor. `performance` spares an answer the climb from the lowest frequency.",
        default="performance",
    )
    zram: Percentage | None = says(
        "Swap in compressed memory, as a share of the memory; `0%` for none. Unstated: 50% (zram-generator's default), and none on "
        "Pis that are nodes of the cluster, because a kubelet refuses to start beside swap. Swap on the SD card is always off.",
        default=None,
    )
    journal: Literal["volatile", "persistent"] = says(
        "Where the journal and the other logs of /var/log live. `volatile`: in memory, so that they do not wear the card and are gone "
        "after a reboot. `persistent`: on the card.",
        default="volatile",
    )


class GpuTuning(Statement):
    """Kernel parameters for long fat streams between GPU servers. There is nothing to state."""


#: What a Raspberry Pi's boot EEPROM can start from (Raspberry Pi documentation, boot EEPROM, BOOT_ORDER).
BootDevice = Literal["sd", "nvme", "usb", "network"]


class FanPoint(Statement):
    """One step of the fan."""

    celsius: Annotated[int, Field(ge=20, le=90)] = says("Temperature from which on it counts, in degrees Celsius.")
    speed: Percentage = says("Speed of the fan, such as `50%`.")
    hysteresis: Annotated[int, Field(ge=1, le=20)] = says(
        "How far below the temperature must fall until the step ends, in degrees Celsius.", default=5
    )


class PiBoot(Statement):
    """config.txt, kernel command line and boot EEPROM. It counts from the next boot on; the host says that it needs one."""

    usb_current: bool = says(
        "Whether a Pi 5 gives its USB ports 1.6 A in all; needs a power supply of 5 A. Else 0.6 A.", default=True
    )
    fan_curve: Annotated[tuple[FanPoint, ...], Field(max_length=4)] = says(
        "Up to four steps of the fan, coolest first. Unstated: the board's own.", default=()
    )
    boot_order: Annotated[tuple[BootDevice, ...], Field(min_length=1)] | None = says(
        "What a Pi starts from, first to last, and then from the start again. Unstated: `[sd, nvme, usb]`, as far as the board can.",
        default=None,
    )


class CpuIsolation(Statement):
    """Which cores of a GPU server are left to workloads, and where interrupts of GPUs and RDMA NICs go."""

    system_cores: Annotated[int, Field(ge=1, le=64)] = says(
        "Physical cores of every NUMA node that are kept for the operating system, the kubelet and what is not pinned.",
        default=2,
    )
    interrupt_cores: Annotated[int, Field(ge=1, le=64)] = says(
        "Physical cores of every NUMA node that are kept for the interrupts of its GPUs and RDMA NICs.", default=2
    )
    hugepages_2m: Annotated[int, Field(ge=0, le=1_000_000)] = says(
        "Pages of 2 MiB that every NUMA node keeps from boot on. 0, as the kernel: no document says what a site's workloads need.",
        default=0,
    )
    hugepages_1g: Annotated[int, Field(ge=0, le=4096)] = says(
        "Pages of 1 GiB that every NUMA node keeps from boot on; they can only be had at boot. 0, as the kernel.",
        default=0,
    )


class NicTuning(Statement):
    """RDMA NICs of GPU servers: names, rings, interrupt moderation, offloads, MTU, and the RoCE side of the traffic classes."""

    ring: Annotated[int, Field(ge=64, le=65536)] | None = says(
        "Descriptors of every receive and transmit ring. Unstated: as many as the card can have.", default=None
    )
    rx_usecs: Annotated[int, Field(ge=0, le=1000)] | None = says(
        "Microseconds from a received packet to its interrupt. Unstated: the card adapts by itself.", default=None
    )
    tx_usecs: Annotated[int, Field(ge=0, le=1000)] | None = says(
        "Microseconds from a sent packet to its interrupt. Unstated: the card adapts by itself.", default=None
    )
    offloads: bool = says(
        "Whether segments are cut and put together by the card and the kernel (TSO, GSO, GRO). RDMA is not concerned; what else uses "
        "these links is long streams, which they are for.",
        default=True,
    )


class PowerThermal(Statement):
    """Temperature, throttling and undervoltage of Pis, for Prometheus and for routers."""

    warm_at: Annotated[int, Field(ge=40, le=84)] = says(
        "From which temperature on a node is `warm`, in degrees Celsius. The firmware holds a Pi back from 80 on, and the fan's last step "
        "is at 75 (Raspberry Pi documentation).",
        default=75,
    )
    interval: Duration = says(
        "How often it is read, 5s to 5min. A state is believed for three times as long.", default="10s"
    )


class Accelerator(Statement):
    """The packages of the accelerator on a Pi's HAT, by its chip. There is nothing to state."""


class ProgramSource(Statement):
    """Where a program is had from, and how it is known to be the right one."""

    url: ArtefactUrl = says("Its address, such as that of Kubernetes' release binary for the host's architecture.")
    sha256: Sha256 = says("Its SHA-256, in lower-case hex.")


#: An absolute path without anything that a unit file or a shell reads differently.
ProgramPath = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9][A-Za-z0-9._+-]*)+$", max_length=200)]
#: Kubernetes' own image of the container that holds a pod's namespaces.
PAUSE = "registry.k8s.io/pause:3.10"


class Joining(Statement):
    """A kubelet with which a host joins the site's cluster. Needs `kubernetes`."""

    program: ProgramPath | None = says(
        "Where the kubelet lies. Unstated: /usr/bin/kubelet, where Kubernetes' Debian package `kubelet` puts it.",
        default=None,
    )
    source: ProgramSource | None = says(
        "Where the kubelet is fetched from, instead of `program`; it is fetched again whenever it is not this one.",
        default=None,
    )
    system_memory_mib: Annotated[int, Field(ge=128, le=262_144)] = says(
        "Memory that pods may not have: the system's, containerd's and the kubelet's, in MiB. K3s asks for 512 MiB for a node without "
        "pods (K3s documentation, Requirements).",
        default=512,
    )


class KubeNode(Statement):
    """The kubelets of GPU servers: cores and NUMA nodes of pods, and whether Pinion has the servers join the site's cluster.

    Without `join` they are told beyond their cluster's own configuration, and need `cpu_isolation`; with it, `container_runtime`.
    """

    join: Joining | None = says(
        "Has the GPU servers join the site's cluster; `{}` is enough. Unstated: the cluster's own tool (kubeadm) does.",
        default=None,
    )
    topology_policy: Literal["best-effort", "restricted", "single-numa-node"] = says(
        "How strictly a pod's CPUs and devices come from few NUMA nodes. `restricted`: from as few as they fit in, so that a pod with all "
        "GPUs still runs; `single-numa-node` refuses that one (Kubernetes documentation, Topology Manager).",
        default="restricted",
    )
    topology_scope: Literal["container", "pod"] = says(
        "Whether that is asked for each container or for the pod as a whole; `container` is the kubelet's own.",
        default="container",
    )


class ContainerRuntime(Statement):
    """containerd on GPU servers, with NVIDIA's runtime and devices by CDI."""

    pause: ImageReference = says(
        "Image of the containers that hold a pod's namespaces. A site that cannot reach Kubernetes' registry names its own.",
        default=PAUSE,
    )


#: Three or two numbers, as NVIDIA counts its data centre drivers: 580.95.05, 570.195.03.
DriverVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]{3}\.[0-9]{1,3}(\.[0-9]{1,3})?$")]
#: A MIG profile: compute slices, memory, and what it has besides (NVIDIA Multi-Instance GPU user guide).
MigProfile = Annotated[str, StringConstraints(pattern=r"^[1-7]g\.[0-9]{1,3}gb(\+me|\+gfx)?$")]


class GpuDriver(Statement):
    """NVIDIA's driver with fabric manager and persistence daemon in one version, MIG, MPS, and metrics by DCGM."""

    version: DriverVersion = says(
        'Version of the driver, in quotes, such as `"580.95.05"`. There is no default: which one a site runs is its own decision.'
    )
    mig: Annotated[tuple[MigProfile, ...], Field(max_length=7)] = says(
        "MIG instances that every GPU is divided into, such as `[3g.40gb, 3g.40gb]`. Unstated: GPUs stay whole.",
        default=(),
    )
    mps: Percentage | None = says(
        "Turns the Multi-Process Service on: how much of a GPU's threads one client may use, such as `50%`. Not beside `mig`.",
        default=None,
    )


class ModelStore(Statement):
    """The models of Pis: fetched, checked, put in use at once or not at all, and the one before kept."""

    key: PublicKey = says("The site's Ed25519 public key that signs artefacts, in base64.")
    budget_mib: Annotated[int, Field(ge=16, le=2**24)] = says(
        "Most that models take of a node's disk, in MiB: the one in use, the one before, and the one that comes.",
        default=8192,
    )
    interval: Duration = says("How often what is missing is tried again, 1min to 24h.", default="15min")
    write_mib: Annotated[int, Field(ge=1, le=4096)] = says(
        "Most that a model which comes writes to the disk, in MiB a second, so that others can write meanwhile. The default is two thirds "
        "of what an SD card of class V30 writes at least (SD Association, Speed Class).",
        default=20,
    )
    keep: bool = says(
        "Whether the models stay on the disk when the concern is taken away, so that gigabytes are not fetched twice by accident. `false`, "
        "in force before the concern goes: they go with it.",
        default=True,
    )


#: What serves a model on a Pi.
Engine = Literal["llama-server", "onnx-model-server", "hailo-ollama"]


class EdgeRuntime(Statement):
    """The program that answers requests on a Pi, fenced in. Needs `model_store`, but for `hailo-ollama`."""

    engine: Engine = says(
        "What serves: llama.cpp's server, ONNX Runtime, or Hailo's server on a HAT.", default="llama-server"
    )
    model: Name | None = says(
        "The model that it serves, by its name in `models`. Unstated: the only one.", default=None
    )
    program: ProgramPath = says(
        "Where llama.cpp's server lies. The default is where Debian's package llama.cpp-tools puts it.",
        default="/usr/bin/llama-server",
    )
    port: Annotated[int, Field(ge=1024, le=65535)] = says("The port that it listens on.", default=8080)
    slots: Annotated[int, Field(ge=1, le=64)] = says(
        "Requests at a time. 1: one answer takes all cores of a Pi, and two at once are each half as fast.", default=1
    )
    context: Annotated[int, Field(ge=64, le=131072)] = says(
        "Tokens of prompt and answer together, for each slot.", default=2048
    )
    cores: Annotated[int, Field(ge=1, le=64)] | None = says(
        "Cores that it may use. Unstated: all but one, which the router and the system keep.", default=None
    )
    memory: Percentage = says("Share of the board's memory that it may use.", default="75%")

    def memory_mib(self, board: int) -> int:
        """MiB that it may use of a *board*'s."""
        return int(board * fraction(self.memory))


#: Percent of a node's memory below which its kubelet evicts pods: beyond the kubelet's own 100 MiB, since without swap a Pi that runs out
#: of memory stands still before it kills anybody.
EVICTED_BELOW = 5


class EdgeCluster(Joining):
    """The Pis join the site's cluster as nodes, and `edge_runtime` runs as a pod there and not as a service of systemd.

    Needs `kubernetes` with `pis_join`, and `pi_boot` on Raspberry Pi OS.
    """

    pause: ImageReference = says(
        "Image of the containers that hold a pod's namespaces; also the empty root of the edge runtime's, which sees the host's programs. "
        "A site that cannot reach Kubernetes' registry names its own.",
        default=PAUSE,
    )
