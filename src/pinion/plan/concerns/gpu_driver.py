"""The concern `gpu_driver`: NVIDIA's driver and what must be of the very same version, GPU modes, and metrics of the GPUs.

Driver, persistence daemon and fabric manager refuse to work with each other across versions, so one version is stated, and apt is held to
it. Packages that are there already in another version are brought to it when the statement changes, all in one transaction.
"""

from __future__ import annotations

import json

from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile, HostUnit
from pinion.plan.programs import as_planned, program_file, program_path, run_once
from pinion.plan.texts import kept_by, unit_text
from pinion.site.catalog import Server
from pinion.site.node_concerns import GpuDriver
from pinion.site.quantities import fraction

NAME = "gpu_driver"
#: apt_preferences(5).
PIN_FILE = "/etc/apt/preferences.d/60-pinion-gpu-driver"
CONFIG_FILE = "/etc/pinion/gpu-modes.json"
PROGRAM = "gpu_modes"
MODES_UNIT = "pinion-gpu-modes.service"
MPS_UNIT = "pinion-mps.service"
#: Above 1000 apt also goes back to an older version.
_PRIORITY = 1001

#: NVIDIA Driver Installation Guide: the open kernel modules (recommended for Hopper), and what carries the driver's own version.
_LOCKED = ("nvidia-open", "nvidia-persistenced")
#: Fabric Manager user guide: without it the GPUs of an NVSwitch system do not start work.
_FABRIC_MANAGER = "nvidia-fabricmanager"
#: DCGM user guide; dcgm-exporter serves Prometheus on port 9400.
_METRICS = ("datacenter-gpu-manager-4-core", "datacenter-gpu-manager-exporter")
#: All packages that are built from one driver. NVIDIA's container packages have versions of their own, which no pin of ours matches.
_FAMILY = "nvidia-* libnvidia-* libcuda1 libcudadebugger1 libnvcuvid1 libnvoptix1 firmware-nvidia-*"


def gpu_driver(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers with GPUs."""
    settings = host.settings.gpu_driver
    if settings is None or host.kind is not DeviceKind.GPU_SERVER or host.server is None or not host.server.gpus:
        return None
    locked = locked_packages(host.server)
    services = ["nvidia-persistenced.service"]
    if host.server.nvswitch:
        services.append("nvidia-fabricmanager.service")
    services += ["nvidia-dcgm.service", "nvidia-dcgm-exporter.service", MODES_UNIT]
    files = [
        _pin(settings, locked),
        program_file(PROGRAM),
        HostFile(
            path=CONFIG_FILE, content=json.dumps({"mig": settings.mig}, indent=1) + "\n", run=(run_once(PROGRAM),)
        ),
        HostFile(path=f"/etc/systemd/system/{MODES_UNIT}", content=_modes_unit()),
    ]
    if settings.mps is not None:
        files.append(
            HostFile(path=f"/etc/systemd/system/{MPS_UNIT}", content=_mps_unit(settings.mps), restart=(MPS_UNIT,))
        )
        services.append(MPS_UNIT)
    return Concern(
        name=NAME,
        packages=tuple(sorted((*locked, *_METRICS))),
        files=tuple(files),
        # None of them works with a driver that is not loaded yet, or is loaded in another version than theirs.
        units=tuple(HostUnit(name=name, enabled=True, active=True, after_boot=(PIN_FILE,)) for name in services),
        claims=_claims(settings, host.server, locked),
    )


def locked_packages(server: Server) -> tuple[str, ...]:
    """The packages that must be of the driver's own version on *server*."""
    return (*_LOCKED, _FABRIC_MANAGER) if server.nvswitch else _LOCKED


def _pin(settings: GpuDriver, locked: tuple[str, ...]) -> HostFile:
    lines = [
        kept_by(NAME),
        f"Package: {_FAMILY}",
        f"Pin: version {settings.version}-*",
        f"Pin-Priority: {_PRIORITY}",
        "",
    ]
    # What is there already, in another version; what is not yet comes in the right one.
    there = f"$(dpkg-query -W -f '${{db:Status-Status}} ${{Package}}\\n' {' '.join(locked)} 2>/dev/null | sed -n 's/^installed //p')"
    bring = 'apt-get -y -q --no-install-recommends --allow-downgrades install "$@"'
    return HostFile(
        path=PIN_FILE,
        content="\n".join(lines),
        for_packages=True,
        run=(f"set -- {there}; ! test -e {PIN_FILE} || test $# = 0 || {bring}",),
        # a module that is loaded stays what it is
        needs_reboot=True,
    )


def _modes_unit() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Division of the GPUs into MIG instances",
            "After=nvidia-persistenced.service nvidia-fabricmanager.service",
            "Before=kubelet.service nvidia-cdi-refresh.service",
        ],
        Service=[
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={program_path(PROGRAM)}",
            "# 1: instances in use, or a mode that waits for a reset of the GPU: the check says so.",
            "SuccessExitStatus=1",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def _mps_unit(share: str) -> str:
    """NVIDIA Multi-Process Service documentation: one daemon for all GPUs, each client with at most *share* of the threads."""
    folders = [
        "Environment=CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps",
        "Environment=CUDA_MPS_LOG_DIRECTORY=/var/log/nvidia-mps",
    ]
    limit = f"Environment=CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={round(fraction(share) * 100)}"
    return unit_text(
        NAME,
        Unit=[
            "Description=NVIDIA Multi-Process Service",
            f"After=nvidia-persistenced.service {MODES_UNIT}",
        ],
        Service=[
            *folders,
            limit,
            "RuntimeDirectory=nvidia-mps",
            "LogsDirectory=nvidia-mps",
            "ExecStart=/usr/bin/nvidia-cuda-mps-control -f",
            "ExecStop=/bin/sh -c 'echo quit | /usr/bin/nvidia-cuda-mps-control'",
            "Restart=on-failure",
        ],
        Install=[
            "WantedBy=multi-user.target",
        ],
    )


def _claims(settings: GpuDriver, server: Server, locked: tuple[str, ...]) -> tuple[HostClaim, ...]:
    claims = [
        HostClaim(
            name="packages",
            claim="driver, persistence daemon and fabric manager are of the version",
            command=f"dpkg-query -W -f '${{source:Upstream-Version}}\\n' {' '.join(locked)} | sort -u | paste -sd ' '",
            expected=settings.version,
        ),
        HostClaim(
            name="module",
            claim="the loaded driver is of the version",
            command="cat /sys/module/nvidia/version",
            expected=settings.version,
            after_boot=(PIN_FILE,),
        ),
        HostClaim(
            name="gpus",
            claim="GPUs that work number",
            command="nvidia-smi -L | grep -c '^GPU '",
            expected=str(server.gpus),
            after_boot=(PIN_FILE,),
        ),
        as_planned(PROGRAM, "modes", "MIG instances are", after_boot=(PIN_FILE,)),
    ]
    if server.nvswitch:
        claims.append(
            HostClaim(
                name="fabric",
                claim="every GPU's place in the NVLink fabric is",
                command="nvidia-smi --query-gpu=fabric.state --format=csv,noheader | sort -u | paste -sd ' '",
                expected="Completed",
                after_boot=(PIN_FILE,),
            )
        )
    return tuple(claims)
