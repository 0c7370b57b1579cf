"""Switches to drive in tests: one in memory, and the lab's switch program over real SSH. Both can be changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import paramiko
from doubles.switch import MemorySwitch
from pydantic import SecretStr
from unit.drivers.switch.plans import PORTS

from pinion.drivers.switch import (
    PortState,
    SwitchAccess,
    SwitchDriver,
    SwitchState,
    VlanState,
    open_driver,
)
from pinion.drivers.switch.eos_qos_parser import DEFAULTS
from pinion.drivers.switch.eos_shell import EosShell
from pinion.drivers.switch.qos import canonical, ordered_maps
from pinion.lab.switch.loopback import LoopbackSwitch
from pinion.plan.model import QosMap, QosProfile, QosQueue, SwitchQos


class Bench(Protocol):
    """A switch and the hands of whoever stands at its console."""

    def driver(self) -> SwitchDriver:
        """A driver for it."""

    def move_port(self, name: str, vid: int) -> None:
        """Put an access port into another VLAN by hand."""

    def add_vlan(self, vid: int, name: str) -> None:
        """Add a VLAN by hand, or rename it."""

    def remove_vlan(self, vid: int) -> None:
        """Remove a VLAN by hand."""

    def ask(self, name: str | None) -> None:
        """Have SSH ask another access list over IPv4, or none, by hand."""

    def give_share(self, profile: str, queue: int, share: int) -> None:
        """Give *queue* of the QoS profile *profile* another share by hand."""

    def map_dscp(self, dscp: int, traffic_class: int) -> None:
        """Have a DSCP mean another traffic class by hand."""

    def add_profile(self, name: str) -> None:
        """Add a QoS profile by hand, which trusts 802.1p."""

    def reboot(self) -> SwitchState:
        """Power it off and on; what it holds then."""

    def going_back(self) -> AbstractContextManager[None]:
        """Within it, the switch undoes one change between the proof of its driver and the confirmation."""


class MemoryBench:
    """`MemorySwitch`; it saves by itself, so a reboot changes nothing."""

    def __init__(self) -> None:
        self.switch = MemorySwitch("tor-1", PORTS)

    def driver(self) -> SwitchDriver:
        return self.switch.driver()

    def move_port(self, name: str, vid: int) -> None:
        def move(port: PortState) -> PortState:
            return port.model_copy(update={"access_vlan": vid}) if port.name == name else port

        self.switch.edit(lambda state: state.model_copy(update={"ports": tuple(map(move, state.ports))}))

    def add_vlan(self, vid: int, name: str) -> None:
        def add(state: SwitchState) -> SwitchState:
            kept = [vlan for vlan in state.vlans if vlan.vid != vid]
            vlans = sorted([*kept, VlanState(vid=vid, name=name)], key=lambda vlan: vlan.vid)
            return state.model_copy(update={"vlans": tuple(vlans)})

        self.switch.edit(add)

    def remove_vlan(self, vid: int) -> None:
        self.switch.edit(
            lambda state: state.model_copy(update={"vlans": tuple(vlan for vlan in state.vlans if vlan.vid != vid)})
        )

    def ask(self, name: str | None) -> None:
        self.switch.edit(
            lambda state: state.model_copy(update={"ssh_ipv4": state.ssh_ipv4.model_copy(update={"asked": name})})
        )

    def _edit_qos(self, change: Callable[[SwitchQos], SwitchQos]) -> None:
        self.switch.edit(lambda state: state.model_copy(update={"qos": canonical(change(state.qos), DEFAULTS)}))

    def give_share(self, profile: str, queue: int, share: int) -> None:
        def of_queue(one: QosQueue) -> QosQueue:
            return one.model_copy(update={"share": share}) if one.queue == queue else one

        def of_profile(one: QosProfile) -> QosProfile:
            return one.model_copy(update={"queues": tuple(map(of_queue, one.queues))}) if one.name == profile else one

        self._edit_qos(lambda qos: qos.model_copy(update={"profiles": tuple(map(of_profile, qos.profiles))}))

    def map_dscp(self, dscp: int, traffic_class: int) -> None:
        entry = QosMap(target="traffic-class", source=dscp, to=traffic_class)
        self._edit_qos(lambda qos: qos.model_copy(update={"maps": ordered_maps((*qos.maps, entry))}))

    def add_profile(self, name: str) -> None:
        profile = QosProfile(name=name, trust="cos")
        self._edit_qos(lambda qos: qos.model_copy(update={"profiles": (*qos.profiles, profile)}))

    def reboot(self) -> SwitchState:
        return self.driver().read()

    @contextmanager
    def going_back(self) -> Iterator[None]:
        self.switch.go_back_next()
        yield


@dataclass
class LoopbackBench:
    """The lab's switch program, driven by netmiko. *folder* holds the lock."""

    switch: LoopbackSwitch
    folder: Path

    def access(self, **changes: object) -> SwitchAccess:
        """How to log in, with *changes*."""
        fields: dict[str, object] = {
            "host": self.switch.host,
            "port": self.switch.port,
            "username": self.switch.user,
            "password": SecretStr(self.switch.password),
            "known_hosts": self.switch.known_hosts,
            "lock_folder": self.folder / "locks",
        }
        return SwitchAccess.model_validate(fields | changes)

    def driver(self, **changes: object) -> SwitchDriver:
        return open_driver("eos", "tor-1", self.access(**changes))

    def console(self, *lines: str) -> str:
        """Say *lines* in privileged mode and return what the switch answers."""
        client = paramiko.SSHClient()
        client.load_host_keys(str(self.switch.known_hosts))
        client.connect(
            self.switch.host,
            self.switch.port,
            self.switch.user,
            self.switch.password,
            look_for_keys=False,
            allow_agent=False,
            timeout=30,
            auth_timeout=60,
        )
        try:
            _, answer, _ = client.exec_command("\n".join(("enable", *lines)), timeout=60)
            return answer.read().decode()
        finally:
            client.close()

    def move_port(self, name: str, vid: int) -> None:
        assert self.console("configure", f"interface {name}", f"switchport access vlan {vid}", "end", "write") == _SAVED

    def add_vlan(self, vid: int, name: str) -> None:
        assert self.console("configure", f"vlan {vid}", f"name {name}", "end", "write") == _SAVED

    def remove_vlan(self, vid: int) -> None:
        assert self.console("configure", f"no vlan {vid}", "end", "write") == _SAVED

    def ask(self, name: str | None) -> None:
        line = "no ip access-group" if name is None else f"ip access-group {name} in"
        assert self.console("configure", "management ssh", line, "end", "write") == _SAVED

    def give_share(self, profile: str, queue: int, share: int) -> None:
        lines = (f"qos profile {profile}", f"uc-tx-queue {queue}", f"bandwidth percent {share}")
        assert self.console("configure", *lines, "end", "write") == _SAVED

    def map_dscp(self, dscp: int, traffic_class: int) -> None:
        line = f"qos map dscp {dscp} to traffic-class {traffic_class}"
        assert self.console("configure", line, "end", "write") == _SAVED

    def add_profile(self, name: str) -> None:
        assert self.console("configure", f"qos profile {name}", "qos trust cos", "end", "write") == _SAVED

    def reboot(self) -> SwitchState:
        self.switch.kill()
        self.switch.forget_running()
        self.switch.start()
        return self.driver().read()

    @contextmanager
    def going_back(self) -> Iterator[None]:
        with self.at(" commit", lambda session: self.console(f"configure session {session} abort")):
            yield

    @contextmanager
    def at(self, end: str, act: Callable[[str], object], *, after: bool = False) -> Iterator[None]:
        """Within it, *act* on the session of the first driver's ``configure session NAME…`` with this *end*, before it or *after* it."""
        plain = EosShell.command
        done: list[str] = []

        def command(shell: EosShell, text: str) -> str:
            first = not done and text.startswith("configure session ") and text.endswith(end)
            if first:
                done.append(text.split()[2])
            if first and not after:
                act(done[0])
            answer = plain(shell, text)
            if first and after:
                act(done[0])
            return answer

        EosShell.command = command  # type: ignore[method-assign]
        try:
            yield
        finally:
            EosShell.command = plain  # type: ignore[method-assign]
        assert done, f"no driver said configure session NAME{end}"


_SAVED = "Copy completed successfully.\n"
