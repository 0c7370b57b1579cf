"""The concern `nic_tuning`: the RDMA NICs of GPU servers, as the traffic classes need them.

A packet must get the same queue on the NIC as on the switch. So the NIC trusts DSCP, the RDMA class and the congestion notifications of the
switch's platform get the priority of their DSCP (DSCP >> 3, the default of every vendor of the reference), and PFC is on for the RDMA
class alone, where that is lossless at the switches too (`pinion.plan.traffic`), and for nothing else.
"""

from __future__ import annotations

import json

from pinion.plan.context import HostContext
from pinion.plan.model import Concern, DeviceKind, HostFile, HostModule, HostUnit, InterfacePlan
from pinion.plan.programs import as_planned, program_file, program_path, run_once
from pinion.plan.texts import kept_by, unit_text
from pinion.plan.traffic import lossless_priorities, priority
from pinion.site.catalog import Nic, RdmaPort
from pinion.site.node_concerns import NicTuning

NAME = "nic_tuning"
CONFIG_FILE = "/etc/pinion/nic-tuning.json"
PROGRAM = "nic_tuning"
SERVICE = "pinion-nic-tuning.service"
TIMER = "pinion-nic-tuning.timer"
UDEV_FILE = "/etc/udev/rules.d/82-pinion-nic-tuning.rules"
#: RFC 3168: the sender says that it understands congestion marks, ECT(0). With it DSCP 26 is the type of service 106.
_ECT0 = 0b10


def nic_tuning(host: HostContext) -> Concern | None:
    """The concern for *host*: GPU servers with RDMA NICs."""
    settings, nic = host.settings.nic_tuning, card(host)
    if settings is None or nic is None or not host.rdma_interfaces:
        return None
    ports = {port.name: port for port in host.server.rdma_ports} if host.server is not None else {}
    links = [
        _link(interface, port)
        for interface in host.rdma_interfaces
        if (port := ports.get(interface.name)) is not None and port.pci is not None
    ]
    return Concern(
        name=NAME,
        files=(
            *links,
            program_file(PROGRAM),
            HostFile(path=CONFIG_FILE, content=settings_of(host, settings, nic), run=(run_once(PROGRAM),)),
            HostFile(path=f"/etc/systemd/system/{SERVICE}", content=_service()),
            HostFile(path=f"/etc/systemd/system/{TIMER}", content=_timer(), restart=(TIMER,)),
            *(() if host.lab else (_rule(nic),)),
        ),
        modules=(HostModule(name="rdma_cm", source="rdma_cm(7): connections, and their type of service in configfs"),)
        if nic.data_centre_bridging
        else (),
        units=(HostUnit(name=TIMER, enabled=True, active=True),),
        # The program finds cards by the names that they have from the next boot on.
        claims=(
            as_planned(PROGRAM, "settings", "settings of RDMA NICs are", after_boot=tuple(link.path for link in links)),
        ),
    )


def card(host: HostContext) -> Nic | None:
    """The model of the RDMA NICs of *host*; None for a host without."""
    if host.kind is not DeviceKind.GPU_SERVER or host.server is None or host.server.rdma_nic is None:
        return None
    return host.catalog.nics[host.server.rdma_nic]


def settings_of(host: HostContext, settings: NicTuning, nic: Nic) -> str:
    """What the program is to do, by NIC: only what the model of the card can."""
    found = {interface.name: _wanted(host, settings, nic, interface) for interface in host.rdma_interfaces}
    return json.dumps(found, indent=1) + "\n"


def _wanted(host: HostContext, settings: NicTuning, nic: Nic, interface: InterfacePlan) -> dict[str, object]:
    moderation = {"rx": settings.rx_usecs, "tx": settings.tx_usecs} if nic.coalescing else {}
    bridging = nic.data_centre_bridging
    rdma = host.site.traffic_classes.get("rdma")
    return {
        "mtu": interface.mtu,
        "ring": (settings.ring or nic.ring) if nic.ring is not None else None,
        "moderation": moderation,
        "offloads": dict.fromkeys(nic.offloads, settings.offloads),
        "pause": False if bridging else None,
        "priorities": {str(dscp): priority(dscp) for dscp in marks(host, interface)} if bridging else None,
        "pfc": list(lossless_priorities(host.site, host.catalog)) if bridging else None,
        "tos": type_of_service(rdma.dscp) if bridging and rdma is not None else None,
    }


def marks(host: HostContext, interface: InterfacePlan) -> tuple[int, ...]:
    """The DSCPs that matter on *interface*: the RDMA class, and the congestion notifications of the switch's platform."""
    rdma = host.site.traffic_classes.get("rdma")
    found = {rdma.dscp} if rdma is not None else set()
    if interface.cable is not None:
        platform = host.catalog.platforms[host.site.switches[interface.cable.device].platform]
        if platform.cnp_dscp is not None:
            found.add(platform.cnp_dscp)
    return tuple(sorted(found))


def type_of_service(dscp: int) -> int:
    """The whole octet of the IP header: *dscp* and ECT(0)."""
    return dscp << 2 | _ECT0


def _link(interface: InterfacePlan, port: RdmaPort) -> HostFile:
    """systemd.link(5): the card's name follows from where it is plugged in, so that no swap of cards renames another one."""
    lines = [
        kept_by(NAME),
        "[Match]",
        f"Path=pci-{port.pci}",
        "Type=ether",
        "",
        "[Link]",
        f"Name={interface.name}",
        f"MTUBytes={interface.mtu}",
        "",
    ]
    return HostFile(
        path=f"/etc/systemd/network/10-pinion-{interface.name}.link", content="\n".join(lines), needs_reboot=True
    )


def _service() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Settings of the RDMA NICs",
            "After=network-pre.target",
        ],
        Service=[
            "Type=oneshot",
            f"ExecStart={program_path(PROGRAM)}",
            "# 1 is a card that is missing or cannot: the check says so, a failed unit would not say more.",
            "SuccessExitStatus=1",
        ],
    )


def _timer() -> str:
    return unit_text(
        NAME,
        Unit=[
            "Description=Settings of the RDMA NICs stay as planned",
        ],
        Timer=[
            "# A card that resets itself, or a hand, may lose or change them at any time; a minute is how long that lasts.",
            "OnActiveSec=1",
            "OnBootSec=10",
            "OnUnitInactiveSec=60",
            "AccuracySec=5",
        ],
        Install=[
            "WantedBy=timers.target",
        ],
    )


def _rule(nic: Nic) -> HostFile:
    """udev(7): a card that appears, also after its driver was loaded again, is set up at once."""
    start = f'RUN+="/usr/bin/systemctl --no-block start {SERVICE}"'
    content = f'{kept_by(NAME)}\nACTION=="add|move", SUBSYSTEM=="net", ENV{{ID_NET_DRIVER}}=="{nic.driver}", {start}\n'
    return HostFile(path=UDEV_FILE, content=content, run=("udevadm control --reload",))
