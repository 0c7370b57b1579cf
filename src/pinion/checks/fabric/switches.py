"""Whether a switch's configuration agrees with the contract."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.checks.fabric.contract import RDMA, Box, Contract, Contradiction
from pinion.checks.fabric.said import Said, SaidEcn, SaidPort, SaidProfile, SaidQueue, SaidSwitch
from pinion.plan.model import DevicePlan, InterfacePlan, PortMode
from pinion.site.catalog import EcnThresholds


class SwitchAgreement:
    """The contradictions of one switch: *said* is its file, *device* its record with cables, *box* what it is."""

    def __init__(self, contract: Contract, said: SaidSwitch, device: DevicePlan, box: Box, others: set[str]) -> None:
        self.contract, self.said, self.device, self.box, self.others = contract, said, device, box, others
        self.queues = {box.traffic_class(dscp): name for name, dscp in contract.dscp.items()}
        self.cnp_queue = None if box.cnp_dscp is None else box.traffic_class(box.cnp_dscp)

    def found(self) -> Iterator[Contradiction]:
        """All contradictions of the switch."""
        for odd in self.said.odd:
            yield self._at(odd, odd.value, "take it out")
        if not self.contract.dscp:
            return
        yield from self._maps()
        if self.contract.lossless:
            yield from self._watchdog()
            yield from self._memory()
        yield from self._ports()
        for profile in self.said.profiles.values():
            yield from self._profile(profile, pauses=_means_to_pause(profile))
        for vid, mtu in self.said.gateways.items():
            planned = self.contract.mtus.get(vid, mtu.value)  # a gateway of somebody's is nobody's business here
            if mtu.value != planned:
                yield self._at(mtu, f"the gateway of VLAN {vid} has MTU {mtu.value}", f"write {planned}")

    def _ports(self) -> Iterator[Contradiction]:
        planned = {one.name: one for one in self.device.interfaces if not one.management_only and one.type != "virtual"}
        for name in self.said.ports.keys() - planned.keys():
            yield self._at(self.said.ports[name].name, f"this switch has no port {name}", "write one that it has")
        for name, interface in planned.items():
            port = self.said.ports.get(name)
            if port is None:
                if interface.enabled:
                    yield self._missing(f"port {name} is not there", "write it")
                continue
            yield from self._vlans(port, interface)
            if interface.enabled and interface.mode is not None:
                yield from self._mtu(port)
                yield from self._profile_of(port, interface)

    def _profile_of(self, port: SaidPort, interface: InterfacePlan) -> Iterator[Contradiction]:
        profile = self.said.profiles.get(port.profile.value) if port.profile is not None else None
        if port.profile is None or profile is None:
            place: Said[str] = port.profile or port.name
            what = f"takes QoS profile {place.value}, which is not there" if port.profile else "takes no QoS profile"
            yield self._at(place, f"port {interface.name} {what}", "give it one that is there")
            return
        pauses = bool(self.contract.lossless) and self._pauses(interface)
        if _means_to_pause(profile) != pauses:
            does, other = ("does not pause", "does") if pauses else ("pauses", "does not")
            wrong = f"port {interface.name} takes {profile.name.value}, which {does}, and its other end {other}"
            yield self._at(port.profile, wrong, "give it another QoS profile")

    def _pauses(self, interface: InterfacePlan) -> bool:
        """Whether what is behind *interface* is another switch of the site or an RDMA NIC."""
        if interface.cable is None:
            return False
        return interface.cable.device in self.others or interface.untagged_vlan in self.contract.rdma_networks

    def _at(self, place: Said[object], wrong: str, fix: str) -> Contradiction:
        return Contradiction(place.file, place.line, wrong, fix)

    def _missing(self, wrong: str, fix: str) -> Contradiction:
        return Contradiction(self.said.file, 0, wrong, fix)

    # --- maps and watchdog ----------------------------------------------------------------------------------------------

    def _maps(self) -> Iterator[Contradiction]:
        classes = {dscp: f"class {name}" for name, dscp in self.contract.dscp.items()}
        if self.box.cnp_dscp is not None:
            classes[self.box.cnp_dscp] = "congestion notifications"
        numbers = {self.box.traffic_class(dscp): dscp for dscp in classes}
        for (kind, source), to in self.said.maps.items():
            places = [Said(0, to.file, line) for line in self.said.sources.get((kind, source), ())] or [to]
            dscp = source if kind == "dscp" else numbers.get(source)
            if dscp not in classes or dscp is None:
                what = "DSCP" if kind == "dscp" else "traffic class"
                yield from (self._at(at, f"{what} {source} is of no class", "take it out") for at in places)
                continue
            planned = dscp // 8 if kind == "cos" else self.box.traffic_class(dscp)
            if to.value != planned:
                target = {"dscp": "traffic class", "tx-queue": "queue", "cos": "802.1p priority"}[kind]
                yield self._at(
                    to,
                    f"{classes[dscp]} (DSCP {dscp}) gets {target} {to.value}, where NICs and queues have {planned}",
                    f"map {source} to {planned}",
                )

    def _watchdog(self) -> Iterator[Contradiction]:
        timers, said = self.box.qos.watchdog, self.said.timers
        planned = {"timeout": timers.timeout, "polling-interval": timers.polling, "recovery-time": timers.recovery}
        for word, milliseconds in planned.items():
            held = said.get(word)
            fix = f"write {milliseconds} ms"
            if held is None:
                yield self._missing(f"the PFC watchdog has no {word}", fix)
            elif held.value != milliseconds:
                yield self._at(held, f"the PFC watchdog's {word} is {held.value} ms, not {milliseconds} ms", fix)
        action = self.said.action
        if action is None or action.value != timers.action:
            fix = f"let it {timers.action}"
            place = Said("", self.said.file) if action is None else action
            yield self._at(place, f"the PFC watchdog does not {timers.action} what is stuck", fix)

    def _memory(self) -> Iterator[Contradiction]:
        """How the packet memory is divided, where the platform is told that."""
        percent = self.box.qos.lossless_percent
        if percent is None:
            return
        for said, planned, what in (
            (self.said.lossless, percent, "lossless"),
            (self.said.lossy, 100 - percent, "lossy"),
        ):
            if not said:
                yield self._missing(f"no packet memory is {what}", f"make it {planned} %")
            for one in said:
                if one.value != planned:
                    wrong = f"{one.value} % of the packet memory are {what}, not {planned} %"
                    yield self._at(one, wrong, f"make it {planned} %")

    # --- profiles -------------------------------------------------------------------------------------------------------

    def _profile(self, profile: SaidProfile, *, pauses: bool) -> Iterator[Contradiction]:
        name = profile.name.value
        if profile.trust is None or profile.trust.value != "dscp":
            yield self._at(profile.trust or profile.name, f"{name} does not trust DSCP", "let it trust DSCP")
        yield from self._pausing(profile, pauses=pauses)
        for number, class_name in sorted(self.queues.items()):
            yield from self._share(profile, number, class_name)
        for number, queue in profile.queues.items():
            if number == self.cnp_queue:
                if not queue.strict or queue.share is not None:
                    place = queue.share or queue.number
                    yield self._at(place, f"{name}: congestion notifications wait in turn", "serve them first")
            elif number not in self.queues:
                yield self._at(queue.number, f"{name}: queue {number} is of no class", "take it out")
            yield from self._queue(name, number, queue, pauses=pauses)
        yield from self._sum(profile)

    def _sum(self, profile: SaidProfile) -> Iterator[Contradiction]:
        """Shares that do not add up to 100 %, told at the one that is furthest off in that direction."""
        shares = {number: queue.share for number, queue in profile.queues.items() if queue.share is not None}
        total = sum(share.value for share in shares.values())
        if total == 100:
            return
        sign = 1 if total > 100 else -1
        off = {
            number: sign * (share.value - planned)
            for number, share in shares.items()
            if (planned := self.contract.percent.get(self.queues.get(number, ""), 0.0)) >= 1 or share.value != 1
        }
        place = shares[max(off, key=lambda number: off[number])] if off else profile.name
        yield self._at(place, f"the shares of {profile.name.value} add up to {total} %", "make it 100 %")

    def _pausing(self, profile: SaidProfile, *, pauses: bool) -> Iterator[Contradiction]:
        name, planned = profile.name.value, self.contract.paused if pauses else frozenset()
        for number in profile.no_drop:
            if number.value not in planned:
                yield self._at(number, f"{name} pauses priority {number.value}, which no NIC pauses", "take it out")
        for missing in sorted(planned - {number.value for number in profile.no_drop}):
            fix = f"let it pause {missing}"
            yield self._at(profile.name, f"{name} does not pause priority {missing}, and the other end does", fix)
        cable = profile.cable.value if profile.cable is not None else None
        if pauses and cable != self.box.qos.cable:
            wrong = f"{name} keeps room for {cable or 0} m of cable, not {self.box.qos.cable or 0} m"
            yield self._at(profile.cable or profile.name, wrong, f"write {self.box.qos.cable or 0}")
        if pauses and not profile.pfc:
            yield self._at(profile.name, f"{name} has PFC off, and names what it pauses", "switch PFC on")
        if pauses and not profile.watchdog:
            fix = "switch the watchdog on"
            yield self._at(profile.name, f"{name} pauses without a watchdog", fix)

    def _share(self, profile: SaidProfile, number: int, class_name: str) -> Iterator[Contradiction]:
        name, planned = profile.name.value, self.contract.percent[class_name]
        queue = profile.queues.get(number)
        if queue is None or queue.share is None:
            place = profile.name if queue is None else queue.number
            fix = f"give queue {number} a share of {planned:.0f} %"
            yield self._at(place, f"{name}: class {class_name} leaves by queue {number}, which has no share", fix)
            return
        if queue.strict:
            yield self._at(queue.number, f"{name}: queue {number} is served before all others", "let it wait its turn")
        if abs(queue.share.value - planned) >= self.contract.tolerance:
            wrong = (
                f"{name}: class {class_name} has {queue.share.value} % of a port, and {planned:g} % in the site file"
            )
            yield self._at(queue.share, wrong, f"make it {planned:.0f} %")

    def _queue(self, name: str, number: int, queue: SaidQueue, *, pauses: bool) -> Iterator[Contradiction]:
        lossless = pauses and self.queues.get(number) in self.contract.lossless
        least = self.box.qos.watchdog.guaranteed if lossless else None
        held = queue.guaranteed.value if queue.guaranteed is not None else None
        if held != least:
            fix = "take it out" if least is None else f"make it {least} %"
            wrong = f"{name}: queue {number} is guaranteed {held or 0} %, which the watchdog takes for {least or 0} %"
            yield self._at(queue.guaranteed or queue.number, wrong, fix)
        yield from self._ecn(name, number, queue)

    def _ecn(self, name: str, number: int, queue: SaidQueue) -> Iterator[Contradiction]:
        planned = self.box.ecn if self.queues.get(number) == RDMA else None
        if queue.ecn is None:
            if planned is not None:
                fix = f"mark from {planned.minimum} kB to {planned.maximum} kB"
                yield self._at(queue.number, f"{name}: nothing marks congestion in queue {number}", fix)
            return
        ecn = queue.ecn.value
        if planned is None:
            yield self._at(
                queue.ecn, f"{name}: queue {number} marks packets whose senders do not heed it", "take it out"
            )
        elif off := _differing(ecn, planned):
            over = self.box.buffer is not None and ecn.maximum > self.box.buffer
            why = f", above the {self.box.buffer} kB of memory that it has" if over else ""
            lines = [ecn.lines[place] for place in off] if ecn.lines is not None else [queue.ecn.line]
            yield self._at(
                Said(ecn, queue.ecn.file, lines[0]),
                f"{name}: queue {number} marks from {ecn.minimum:g} to {ecn.maximum:g} kB with {ecn.probability} %{why}",
                f"mark from {planned.minimum} kB to {planned.maximum} kB with {planned.probability} %",
            )

    # --- ports ----------------------------------------------------------------------------------------------------------

    def _vlans(self, port: SaidPort, interface: InterfacePlan) -> Iterator[Contradiction]:
        if interface.mode is PortMode.ACCESS and interface.untagged_vlan is not None:
            planned = self.contract.vids[interface.untagged_vlan]
            if port.access_vlan is None or port.access_vlan.value != planned:
                held = port.access_vlan.value if port.access_vlan is not None else 1
                wrong = f"port {interface.name} is in VLAN {held}, and what is behind it in {planned}"
                yield self._at(port.access_vlan or port.name, wrong, f"put it into VLAN {planned}")
        if interface.mode is PortMode.TRUNK:
            carried = frozenset(self.contract.vids[name] for name in interface.tagged_vlans)
            if port.trunk_vlans is None or port.trunk_vlans.value != carried:
                wrong = f"trunk {interface.name} does not carry exactly VLANs {', '.join(map(str, sorted(carried)))}"
                yield from (self._at(at, wrong, "let it carry these") for at in self._trunk_places(port, carried))

    def _trunk_places(self, port: SaidPort, carried: frozenset[int]) -> list[Said[object]]:
        """Where the VLANs of the trunk *port* are wrong: those that it should not carry, else all of them."""
        lines = [port.trunk_lines[vid] for vid in sorted(port.trunk_lines.keys() - carried)]
        return [Said(None, self.said.file, line) for line in lines] or [port.trunk_vlans or port.name]

    def _mtu(self, port: SaidPort) -> Iterator[Contradiction]:
        if port.mtu is None:
            return
        largest = max(self.contract.mtus.values())
        if port.mtu.value > self.box.max_mtu:
            wrong = f"port {port.name.value} has MTU {port.mtu.value}, and this switch takes {self.box.max_mtu}"
            yield self._at(port.mtu, wrong, f"write at most {self.box.max_mtu}")
        elif port.mtu.value < largest:
            wrong = f"port {port.name.value} has MTU {port.mtu.value}, and packets have up to {largest}"
            yield self._at(port.mtu, wrong, f"write at least {largest}, or take it out")


def _differing(ecn: SaidEcn, planned: EcnThresholds) -> list[int]:
    """Which of minimum, maximum and probability (0, 1, 2) are not as *planned*."""
    held = (ecn.minimum, ecn.maximum, ecn.probability)
    wanted = (planned.minimum, planned.maximum, planned.probability)
    return [place for place in range(3) if held[place] != wanted[place]]


def _means_to_pause(profile: SaidProfile) -> bool:
    """Whether *profile* is one of ports that pause, complete or not."""
    return profile.pfc is not None or profile.watchdog is not None or bool(profile.no_drop)
