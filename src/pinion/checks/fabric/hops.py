"""One packet of each class, hop by hop: what every file on its way does with it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from pinion.checks.fabric.agreement import Reading
from pinion.checks.fabric.contract import RDMA, Box, Contract
from pinion.checks.fabric.said import SaidNic, SaidQueue, SaidSwitch
from pinion.plan.model import DevicePlan, InterfacePlan, Plan, PortMode
from pinion.site.catalog import Catalog
from pinion.site.model import Site


class Hop(BaseModel):
    """Where a packet of *traffic_class* leaves or arrives, and how it is treated there. None: nothing says it.

    *dscp* and *priority* (802.1p; None on a link without tags) are its marks, *queue* the one that it leaves by, *share* that one's
    percentage of the port (None with a queue: served first), *pfc* the priorities that are paused, *ecn* the thresholds in kB,
    *mtu* in bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    traffic_class: str
    place: str
    port: str
    dscp: int
    priority: int | None = None
    queue: int | None = None
    share: int | None = None
    pfc: tuple[int, ...] | None = None
    ecn: str | None = None
    mtu: int | None = None


def hops(site: Site, catalog: Catalog, plan: Plan, said: Reading) -> tuple[Hop, ...]:
    """The way of one packet of each class of *plan*, as the files of *said* treat it."""
    contract = Contract.of(plan)
    found: list[Hop] = []
    for name, dscp in contract.dscp.items():
        ends = _ends(plan, name)
        if ends is None:
            continue
        way = _Way(site, catalog, plan, said, name, dscp)
        found += way.between(*ends)
    return tuple(found)


_End = tuple[DevicePlan, InterfacePlan]


def _ends(plan: Plan, name: str) -> tuple[_End, _End] | None:
    """Where a packet of the class *name* comes from and goes to: the two furthest RDMA NICs, or the first Pi and the first GPU server.

    None where the site has no such hosts.
    """
    rdma = {vlan.name for vlan in plan.vlans if vlan.purpose == "rdma"}
    cabled = [
        (device, interface)
        for device in plan.devices
        for interface in device.interfaces
        if device.kind != "switch" and not device.leaving and interface.cable is not None and interface.owns_cable
    ]
    if name == RDMA:
        nics = [end for end in cabled if end[1].untagged_vlan in rdma]
        return (nics[0], nics[-1]) if len(nics) > 1 else None
    others = [end for end in cabled if end[1].untagged_vlan not in rdma and not end[1].management_only]
    first = next((end for end in others if end[0].kind == "pi"), None)
    last = next((end for end in others if end[0].kind == "gpu-server"), None)
    return (first, last) if first is not None and last is not None else None


class _Way:
    """The way of one class through the site."""

    def __init__(self, site: Site, catalog: Catalog, plan: Plan, said: Reading, name: str, dscp: int) -> None:
        self.site, self.catalog, self.plan, self.said, self.name, self.dscp = site, catalog, plan, said, name, dscp

    def between(self, start: _End, end: _End) -> Iterator[Hop]:
        """From the interface *start* to the interface *end*."""
        yield self._host("from", *start)
        first, last = start[1].cable, end[1].cable
        if first is None or last is None:
            return
        if first.device != last.device:
            yield from self._to_pair(first.device, last.device)
        yield self._switch("leaf", last.device, last.interface)
        yield self._host("to", *end)

    def _to_pair(self, near: str, far: str) -> Iterator[Hop]:
        """Out of the switch *near* by its first cable to the switch *far*."""
        for interface in self.plan.device(near).interfaces:
            if interface.cable is not None and interface.cable.device == far:
                yield self._switch("leaf", near, interface.name)
                return

    def _host(self, role: str, device: DevicePlan, interface: InterfacePlan) -> Hop:
        nic: SaidNic | None = self.said.nics.get((device.name, interface.name))
        hop = Hop(
            traffic_class=self.name,
            place=f"{role} {device.name}",
            port=interface.name,
            dscp=self.dscp,
            mtu=interface.mtu,
        )
        if nic is None:
            return hop
        marked = nic.tos.value // 4 if nic.tos is not None and self.name == RDMA else self.dscp
        priority = nic.priorities.get(marked)
        return hop.model_copy(
            update={
                "dscp": marked,
                "queue": priority.value if priority is not None else None,
                "pfc": tuple(number.value for number in nic.pfc) if nic.pfc is not None else None,
                "mtu": nic.mtu.value if nic.mtu is not None else interface.mtu,
            }
        )

    def _switch(self, role: str, name: str, port: str) -> Hop:
        said = self.said.switches.get(name, SaidSwitch(name))
        box = Box.of(self.site, self.catalog, name)
        interface = next(one for one in self.plan.device(name).interfaces if one.name == port)
        hop = Hop(traffic_class=self.name, place=f"{role} {name}", port=port, dscp=self.dscp)
        known = said.ports.get(port)
        profile = said.profiles.get(known.profile.value) if known is not None and known.profile is not None else None
        if box is None or profile is None or known is None:
            return hop
        told = said.maps.get(("dscp", self.dscp))
        number = told.value if told is not None else box.traffic_class(self.dscp)
        tagged = said.maps.get(("cos", number))
        priority = tagged.value if tagged is not None else box.qos.traffic_classes.index(number)
        to_queue = said.maps.get(("tx-queue", number))
        queue = profile.queues.get(to_queue.value if to_queue is not None else number)
        return hop.model_copy(
            update={
                "priority": priority if interface.mode is PortMode.TRUNK else None,
                "queue": to_queue.value if to_queue is not None else number,
                "share": queue.share.value if queue is not None and queue.share is not None else None,
                "pfc": tuple(each.value for each in profile.no_drop) if profile.pfc else (),
                "ecn": _ecn(queue),
                "mtu": known.mtu.value if known.mtu is not None else box.max_mtu,
            }
        )


def _ecn(queue: SaidQueue | None) -> str | None:
    if queue is None or queue.ecn is None:
        return None
    ecn = queue.ecn.value
    return f"{ecn.minimum:g}-{ecn.maximum:g} kB, {ecn.probability} %"
