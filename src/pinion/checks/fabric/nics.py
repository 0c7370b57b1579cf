"""Whether the settings of an RDMA NIC agree with the contract."""

from __future__ import annotations

from collections.abc import Iterator

from pinion.checks.fabric.contract import ECT0, RDMA, Contract, Contradiction
from pinion.checks.fabric.said import Said, SaidNic


class NicAgreement:
    """The contradictions of one NIC: *name* tells which, *mtu* is that of its network, *cnp_dscp* that of the switch behind it."""

    def __init__(self, contract: Contract, said: SaidNic, name: str, mtu: int, cnp_dscp: int | None) -> None:
        self.contract, self.said, self.name, self.mtu, self.cnp_dscp = contract, said, name, mtu, cnp_dscp

    def found(self) -> Iterator[Contradiction]:
        """All contradictions of the NIC."""
        for mtu, when in ((self.said.mtu, "has"), (self.said.boot_mtu, "starts with")):
            if mtu is not None and mtu.value != self.mtu:
                wrong = f"{self.name} {when} MTU {mtu.value}, and its network has {self.mtu}"
                yield Contradiction(mtu.file, mtu.line, wrong, f"write {self.mtu}")
        if self.said.pfc is None or RDMA not in self.contract.dscp:
            return  # a card without data centre bridging is told nothing of it
        yield from self._pfc(self.said.pfc)
        yield from self._priorities()
        yield from self._tos()

    def _pfc(self, pfc: tuple[Said[int], ...]) -> Iterator[Contradiction]:
        for number in pfc:
            if number.value not in self.contract.paused:
                wrong = f"{self.name} pauses priority {number.value}, and no switch does"
                yield Contradiction(number.file, number.line, wrong, "take it out of `pfc`")
        for missing in sorted(self.contract.paused - {number.value for number in pfc}):
            wrong = f"{self.name} does not pause priority {missing}, and its switch does"
            yield Contradiction(self.said.file, pfc[0].line if pfc else 0, wrong, f"write {missing} in `pfc`")
        if self.said.pause is not None and self.said.pause.value:
            wrong = f"{self.name} pauses its whole link"
            yield Contradiction(self.said.pause.file, self.said.pause.line, wrong, "write `pause: false`")

    def _priorities(self) -> Iterator[Contradiction]:
        planned = {self.contract.dscp[RDMA]: "class rdma"}
        if self.cnp_dscp is not None:
            planned[self.cnp_dscp] = "congestion notifications"
        for dscp, number in self.said.priorities.items():
            if dscp not in planned:
                wrong = f"{self.name} gives DSCP {dscp} a priority, and no switch treats it as a class of this card"
                yield Contradiction(number.file, number.line, wrong, f"write DSCP {' and '.join(map(str, planned))}")
            elif number.value != dscp // 8:
                wrong = (
                    f"{self.name} gives {planned[dscp]} (DSCP {dscp}) priority {number.value}, the switch {dscp // 8}"
                )
                yield Contradiction(number.file, number.line, wrong, f"write {dscp // 8}")
        for dscp in planned.keys() - self.said.priorities.keys():
            wrong = f"{self.name} gives {planned[dscp]} (DSCP {dscp}) no priority"
            yield Contradiction(self.said.file, 0, wrong, f"write {dscp}: {dscp // 8} in `priorities`")

    def _tos(self) -> Iterator[Contradiction]:
        planned = self.contract.dscp[RDMA] * 4 + ECT0
        tos = self.said.tos
        if tos is None or tos.value != planned:
            held = "no type of service" if tos is None else f"type of service {tos.value} (DSCP {tos.value // 4})"
            wrong = f"{self.name} marks its packets with {held}, and switches know class rdma by DSCP {planned // 4}"
            yield Contradiction(self.said.file, tos.line if tos is not None else 0, wrong, f"write {planned} in `tos`")
