"""The concern `cpu_isolation`: which cores of a GPU server run workloads, which the system, and which the devices' interrupts.

One division of the cores (`pinion.plan.numa`) is the truth behind the kernel's arguments, the interrupts' cores, what irqbalance leaves
alone, and the cores that the kubelet reserves (`kube_node`).
"""

from __future__ import annotations

import json

from pinion.plan import numa
from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostClaim, HostFile, HostUnit
from pinion.plan.programs import FOLDER, as_planned, program_file, program_path, run_once
from pinion.plan.texts import kept_by, unit_text
from pinion.site.node_concerns import CpuIsolation

NAME = "cpu_isolation"
CONFIG_FILE = "/etc/pinion/irq-pinning.json"
PROGRAM = "irq_pinning"
SERVICE = "pinion-irq-pinning.service"
TIMER = "pinion-irq-pinning.timer"
UDEV_FILE = "/etc/udev/rules.d/80-pinion-irq-pinning.rules"
POLICY_FILE = f"{FOLDER}/irq-policy"
BALANCE_FILE = "/etc/systemd/system/irqbalance.service.d/60-pinion.conf"
BALANCE_ENVIRONMENT = "/etc/pinion/irqbalance.env"

#: NVIDIA; base class display, subclass 3D controller (PCI Code and ID Assignment Specification): a GPU without a display.
GPU_VENDOR, GPU_CLASS = "0x10de", "0x0302"

_PARAMETERS = "Linux Documentation/admin-guide/kernel-parameters.txt"


def cpu_isolation(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers only."""
    settings, division = host.settings.cpu_isolation, divided(host)
    if settings is None or division is None:
        return None
    arguments, boot_files = host.kernel_arguments(NAME, kernel_arguments(host, settings, division))
    booted = tuple(file.path for file in boot_files)
    return Concern(
        name=NAME,
        files=(
            *boot_files,
            program_file(PROGRAM),
            HostFile(path=CONFIG_FILE, content=pinning(host, division), run=() if host.lab else (run_once(PROGRAM),)),
            HostFile(path=f"/etc/systemd/system/{SERVICE}", content=_service()),
            HostFile(path=f"/etc/systemd/system/{TIMER}", content=_timer(), restart=(TIMER,)),
            HostFile(path=UDEV_FILE, content=_rule(), run=("udevadm control --reload",)),
            HostFile(path=POLICY_FILE, mode="0755", content=_policy()),
            HostFile(path=BALANCE_ENVIRONMENT, content=_balance_environment(division), restart=("irqbalance.service",)),
            HostFile(path=BALANCE_FILE, content=_balance_drop_in(), restart=("irqbalance.service",)),
        ),
        kernel_arguments=arguments,
        units=(HostUnit(name=TIMER, enabled=True, active=True),),
        claims=(*_claims(host, division, booted), *_boot_claims(host, settings, division, booted)),
    )


def divided(host: HostContext) -> numa.Division | None:
    """How the cores of *host* are divided; None for a host that does not get this concern."""
    settings = host.settings.cpu_isolation
    if settings is None or host.kind is not DeviceKind.GPU_SERVER or host.server is None or host.server.numa is None:
        return None
    return numa.divide(host.server.numa, settings.system_cores, settings.interrupt_cores)


def kernel_arguments(host: HostContext, settings: CpuIsolation, division: numa.Division) -> dict[str, str]:
    """The arguments of the kernel's command line, each with its source."""
    isolated = numa.text(division.isolated)
    found = {
        f"isolcpus=managed_irq,domain,{isolated}": f"{_PARAMETERS}: the scheduler puts nothing on them that does not ask for it, "
        "and drivers' managed interrupts keep off",
        f"nohz_full={isolated}": f"{_PARAMETERS}; Linux Documentation/timers/no_hz.rst: no timer tick while one task runs",
        f"rcu_nocbs={isolated}": f"{_PARAMETERS}; Linux Documentation/RCU/checklist.rst: RCU callbacks run on the other cores",
        f"irqaffinity={numa.text(division.system)}": f"{_PARAMETERS}: where interrupts begin that nobody pins",
    }
    assert host.server is not None
    assert host.server.numa is not None
    nodes = range(len(host.server.numa.nodes))
    for size, pages in (("2M", settings.hugepages_2m), ("1G", settings.hugepages_1g)):
        if pages:
            share = ",".join(f"{node}:{pages}" for node in nodes)
            found[f"hugepagesz={size} hugepages={share}"] = (
                f"{_PARAMETERS}: pages of {size} by NUMA node, by the site file"
            )
    return found


def pinning(host: HostContext, division: numa.Division) -> str:
    """What the program is to do: RDMA NICs by address, GPUs by class, and the CPUs for interrupts of each NUMA node."""
    assert host.server is not None
    used = {interface.name for interface in host.rdma_interfaces}
    ports = [port for port in host.server.rdma_ports if port.name in used and port.pci is not None]
    wanted = {
        "devices": [{"name": port.name, "pci": port.pci, "numa_node": port.numa_node} for port in ports],
        "classes": [{"name": "GPU", "vendor": GPU_VENDOR, "class": GPU_CLASS}],
        "cpus": {str(node): numa.text(cpus) for node, cpus in division.interrupts_of.items()},
    }
    return json.dumps(wanted, indent=1) + "\n"


def _service() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Interrupts of GPUs and RDMA NICs on the cores of their NUMA node",
            "# A container has no interrupts of its own.",
            "ConditionVirtualization=!container",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path(PROGRAM)}",
            "# 1 is a device that is missing or an interrupt that cannot be moved: the check says so, a failed unit would not say more.",
            "SuccessExitStatus=1",
        ],
    )


def _timer() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Interrupts of GPUs and RDMA NICs stay where they belong",
        ],
        Timer=[
            "# A driver that is loaded again, or a hand, may move them at any time; a minute is how long that lasts.",
            "OnBootSec=10",
            "OnUnitInactiveSec=60",
            "AccuracySec=5",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )


def _rule() -> str:
    """udev(7): when a driver takes a device, its interrupts are new."""
    start = f'RUN+="/usr/bin/systemctl --no-block start {SERVICE}"'
    return (
        f"{kept_by(NAME)}\n"
        f'ACTION=="bind", SUBSYSTEM=="pci", DRIVER=="mlx5_core", {start}\n'
        f'ACTION=="bind", SUBSYSTEM=="pci", DRIVER=="nvidia", {start}\n'
    )


def _policy() -> str:
    """irqbalance(1), --policyscript: asked with the device's path in sysfs and the interrupt, answers whether to keep off."""
    return f'#!/bin/sh\n{kept_by(NAME)}\nexec {program_path(PROGRAM)} --policy "$1" "$2"\n'


def _balance_environment(division: numa.Division) -> str:
    banned = numa.text(division.isolated | division.interrupts)
    return f"{kept_by(NAME)}\nIRQBALANCE_BANNED_CPULIST={banned}\nIRQBALANCE_ARGS=--policyscript={POLICY_FILE}\n"


def _balance_drop_in() -> str:
    """Where irqbalance is installed; the package's own settings file would else win over ours."""
    return f"{kept_by(NAME)}\n[Service]\nEnvironmentFile=\nEnvironmentFile={BALANCE_ENVIRONMENT}\n"


def _claims(host: HostContext, division: numa.Division, boot_files: tuple[str, ...]) -> tuple[HostClaim, ...]:
    """What only hardware can show; the kernel's arguments are in *boot_files*."""
    if host.lab:
        return ()
    assert host.server is not None
    assert host.server.numa is not None
    isolated = numa.text(division.isolated)
    return (
        *(
            HostClaim(
                name=f"node.{number}",
                claim=f"NUMA node {number} has the CPUs",
                command=f"cat /sys/devices/system/node/node{number}/cpulist",
                expected=numa.text(numa.parse(node.cpus)),
            )
            for number, node in enumerate(host.server.numa.nodes)
        ),
        HostClaim(
            name="isolated",
            claim="the scheduler leaves alone the CPUs",
            command="cat /sys/devices/system/cpu/isolated",
            expected=isolated,
            after_boot=boot_files,
        ),
        HostClaim(
            name="tickless",
            claim="without a tick run the CPUs",
            command="cat /sys/devices/system/cpu/nohz_full",
            expected=isolated,
            after_boot=boot_files,
        ),
        as_planned(PROGRAM, "interrupts", "interrupts of GPUs and RDMA NICs are"),
    )


def _boot_claims(
    host: HostContext, settings: CpuIsolation, division: numa.Division, boot_files: tuple[str, ...]
) -> tuple[HostClaim, ...]:
    """What the running kernel was told at its start and shows nowhere else, and the pages that it found room for."""
    if host.lab:
        return ()
    assert host.server is not None
    assert host.server.numa is not None
    told = (
        ("rcu_nocbs", "RCU callbacks are kept from the CPUs", numa.text(division.isolated)),
        ("irqaffinity", "interrupts that nobody pins begin on the CPUs", numa.text(division.system)),
    )
    kept = ((2048, settings.hugepages_2m), (1048576, settings.hugepages_1g))
    return (
        *(
            HostClaim(
                name=name,
                claim=f"by the running kernel's command line, {claim}",
                command=f"tr ' ' '\\n' </proc/cmdline | sed -n 's/^{name}=//p' | tail -n 1",
                expected=expected,
                after_boot=boot_files,
            )
            for name, claim, expected in told
        ),
        *(
            HostClaim(
                name=f"hugepages.{kib}kB.{node}",
                claim=f"pages of {kib} KiB on NUMA node {node} number",
                command=f"cat /sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages",
                expected=str(pages),
                after_boot=boot_files,
            )
            for kib, pages in kept
            if pages
            for node in range(len(host.server.numa.nodes))
        ),
    )
