"""What a concern is decided from: all that the plan knows of one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinion.plan.model import DeviceKind, DevicePlan, FlowPlan, HostFile, HostKernelArgument, InterfacePlan, VlanPlan
from pinion.site.catalog import Board, Catalog, Hat, Platform, Server
from pinion.site.concerns import Concerns
from pinion.site.model import GpuServer, ManagementHost, PiGroup, Site

#: Where Raspberry Pi OS (bookworm and later) keeps its boot partition; one line of arguments.
PI_COMMAND_LINE = "/boot/firmware/cmdline.txt"
#: Groups of hosts by their kind, as the site file and the inventories call them.
GROUPS = {DeviceKind.PI: "pis", DeviceKind.GPU_SERVER: "gpu_servers", DeviceKind.MANAGEMENT_HOST: "management_hosts"}
#: GRUB of Debian and Ubuntu sources these after /etc/default/grub, in lexical order.
GRUB_FOLDER = "/etc/default/grub.d"


@dataclass(frozen=True, slots=True)
class HostContext:
    """One host and its surroundings.

    *stated* is its entry of the site file (a Pi's is its group). *board* and *hat* are set for Pis, *server* for the others.
    *vlans* and *devices* are the whole site's, in the plan's order; *flows* are those that end at this host.
    *catalog* is the whole hardware catalogue.
    """

    name: str
    kind: DeviceKind
    platform: Platform
    site: Site
    stated: PiGroup | GpuServer | ManagementHost
    device: DevicePlan
    board: Board | None
    hat: Hat | None
    server: Server | None
    vlans: tuple[VlanPlan, ...]
    devices: tuple[DevicePlan, ...]
    flows: tuple[FlowPlan, ...]
    catalog: Catalog

    @property
    def settings(self) -> Concerns:
        """The section `concerns` of the site file."""
        return self.site.concerns

    @property
    def lab(self) -> bool:
        """Whether the host is a container on somebody's machine: what that cannot hold is written, and not claimed to be in force."""
        return self.platform.lab

    @property
    def groups(self) -> tuple[str, ...]:
        """What a site file calls hosts like this one: by their kind, and a Pi's own group."""
        kind = GROUPS[self.kind]
        return (kind, self.name.rpartition("-")[0]) if self.kind is DeviceKind.PI else (kind,)

    @property
    def rdma_interfaces(self) -> tuple[InterfacePlan, ...]:
        """Its interfaces on RDMA networks, in order."""
        networks = {vlan.name for vlan in self.vlans if vlan.purpose == "rdma"}
        return tuple(interface for interface in self.device.interfaces if interface.untagged_vlan in networks)

    def vlan(self, name: str) -> VlanPlan:
        """The VLAN called *name*; `KeyError` when there is none."""
        for vlan in self.vlans:
            if vlan.name == name:
                return vlan
        raise KeyError(name)

    def kernel_arguments(
        self, concern: str, arguments: Mapping[str, str]
    ) -> tuple[tuple[HostKernelArgument, ...], tuple[HostFile, ...]]:
        """The parts of *concern* that put *arguments* (argument to source) on the kernel command line, by the host's boot loader.

        A Pi has one line that concerns share (`Concern.kernel_arguments`); GRUB has a file a concern (`Concern.files`).
        """
        if self.kind is DeviceKind.PI:
            return tuple(
                HostKernelArgument(argument=argument, source=source, file=PI_COMMAND_LINE, live=not self.lab)
                for argument, source in arguments.items()
            ), ()
        lines = [f"# Kept by Pinion (concern {concern}); changes made here are undone by the next run."]
        lines += [f"# {argument}: {source}" for argument, source in arguments.items()]
        lines.append(f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"')
        file = HostFile(
            path=f"{GRUB_FOLDER}/80-pinion-{concern.replace('_', '-')}.cfg",
            content="\n".join(lines) + "\n",
            run=() if self.lab else ("update-grub",),
            needs_reboot=True,
        )
        return (), (file,) if arguments else ()
