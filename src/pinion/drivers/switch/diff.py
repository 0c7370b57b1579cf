"""What must change on a switch so that it holds a plan: typed, in the words of the site file, and as configuration lines. Pure.

The one comparison: `pinion verify`, the preview, `up` and `pinion fabric check` all ask it.

Scope:

* **Ports** are ours entirely: one that the plan does not know is shut, a line without a word of ours is drift.
* **VLANs and gateways** are ours when this plan or the former one lists the VLAN. Others are foreign: reported in `left`, never touched.
* **SSH**: the access list `SSH_LIST` of each family, and that SSH asks it. A list of somebody's stays asked where the plan has none.
* **Traffic classes**: what `pinion.drivers.switch.qos` says is ours.
* **Routing** is switched on where the plan has gateways and never switched off: something else may rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from pinion.drivers.switch.dialects import dialect
from pinion.drivers.switch.lines import config_lines
from pinion.drivers.switch.qos import expected_qos, foreign_qos, qos_differences
from pinion.drivers.switch.state import wanted
from pinion.plan.model import (
    DEFAULT_VLAN,
    PortState,
    SshGuard,
    SviState,
    SwitchPlan,
    SwitchState,
    VlanState,
    port_order,
    vid_ranges,
)


class Change(BaseModel):
    """One difference. *old* is what the switch holds, *new* what the plan says; None is absent.

    *path* leads to the field in the switch's state (``("ports", "Ethernet3", "access_vlan")``); *subject* and *field* are words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[str, ...]
    subject: str
    field: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        said = [self.subject + ":" if self.field else self.subject, self.field, *_transition(self.old, self.new)]
        return " ".join(word for word in said if word)


class SwitchDiff(BaseModel):
    """All differences between a switch and a plan.

    *lines* are the configuration lines that will change, *left* is what is foreign and stays.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    switch: str
    changes: tuple[Change, ...] = ()
    lines: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True when the switch holds the plan. What is left alone does not count."""
        return not self.changes

    @property
    def only_unsaved(self) -> bool:
        """True when the running configuration is right and only needs to be saved."""
        return bool(self.changes) and all(change.path == ("saved",) for change in self.changes)


@dataclass(frozen=True, slots=True)
class Names:
    """How the site file calls what a plan (and the former plan) holds."""

    ports: dict[str, str]
    vlans: dict[int, str]

    @classmethod
    def of(cls, plan: SwitchPlan, previous: SwitchPlan | None) -> Names:
        """The names of *plan*; those of *previous* where *plan* has none."""
        plans = [known for known in (previous, plan) if known is not None]
        return cls(
            ports={port.name: port.origin for known in plans for port in known.ports},
            vlans={vlan.vid: f"networks.{vlan.name}" for known in plans for vlan in known.vlans},
        )

    def port(self, name: str) -> str:
        """``port Ethernet3 (pis.pi 3)``."""
        return f"port {name} ({self.ports[name]})" if name in self.ports else f"port {name} (not in the plan)"

    def vlan(self, vid: int) -> str:
        """``VLAN 101 (networks.edge-inference)``."""
        return f"VLAN {vid} ({self.vlans[vid]})" if vid in self.vlans else f"VLAN {vid}"


def compare(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None = None) -> SwitchDiff:
    """How *state* differs from *want*. *previous* is the plan that was applied before: what only it lists is to be removed."""
    target = expected(state, want, previous)
    names = Names.of(want, previous)
    changes = [
        *_vlan_changes(state, target, names),
        *_port_changes(state, target, names),
        *_svi_changes(state, target, names),
        *_global_changes(state, target),
        *_qos_changes(state, target, want, previous),
    ]
    if state.unconfirmed is not None:
        reason = f"session {state.unconfirmed} waits for its confirmation"
        changes.append(
            Change(path=("unconfirmed",), subject="configuration", field="", old=reason, new="confirmed or undone")
        )
    if not state.saved:
        changes.append(
            Change(path=("saved",), subject="start-up configuration", field="", old="out of date", new="saved")
        )
    write = dialect(want).write
    return SwitchDiff(
        switch=want.name,
        changes=tuple(changes),
        lines=tuple(config_lines(write(state), write(target))) if changes else (),
        left=foreign(state, want, previous),
    )


def removal(state: SwitchState, had: SwitchPlan) -> SwitchDiff:
    """What `undo` of *had* changes: its VLANs and gateways go, its ports become shut and unassigned. Everything else is left."""
    return compare(state, emptied(had), had)


def emptied(had: SwitchPlan) -> SwitchPlan:
    """The plan of a switch with the ports of *had*, all unused, and nothing else."""
    ports = tuple(
        port.model_copy(
            update={
                "description": "",
                "enabled": False,
                "mode": None,
                "access_vlan": None,
                "trunk_vlans": (),
                "mtu": None,
                "qos_profile": None,
            }
        )
        for port in had.ports
    )
    return had.model_copy(
        update={"vlans": (), "svis": (), "ports": ports, "virtual_router_mac": None, "qos": None, "ssh_sources": ()}
    )


def owned_vids(want: SwitchPlan, previous: SwitchPlan | None) -> set[int]:
    """The VLANs that are ours: of the plan and of the former plan. The default VLAN is nobody's."""
    plans = [want] if previous is None else [want, previous]
    listed = {vlan.vid for plan in plans for vlan in plan.vlans} | {svi.vid for plan in plans for svi in plan.svis}
    return listed - {DEFAULT_VLAN}


def foreign(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None) -> tuple[str, ...]:
    """What is on the switch inside the kinds of our scope, but not ours: told, never touched."""
    ours = owned_vids(want, previous)
    target = wanted(want)
    found = [
        f"VLAN {vlan.vid}" + (f" ({vlan.name})" if vlan.name else "") for vlan in state.vlans if vlan.vid not in ours
    ]
    found += [f"gateway of VLAN {svi.vid}" for svi in state.svis if svi.vid not in ours]
    if state.ip_routing and not target.ip_routing:
        found.append("IPv4 routing")
    if state.ipv6_routing and not target.ipv6_routing:
        found.append("IPv6 routing")
    if state.virtual_router_mac and target.virtual_router_mac is None:
        found.append(f"MAC address of shared gateways {state.virtual_router_mac}")
    for word, has, needs in _guards(state, target):
        if has.asked is not None and not has.ours and needs.asked is None:
            found.append(f"SSH over {word} asks access list {has.asked}")
    return (*found, *foreign_qos(state.qos, want, previous))


def expected(state: SwitchState, want: SwitchPlan, previous: SwitchPlan | None) -> SwitchState:
    """What the switch will hold once *want* is applied: the plan, and of *state* what is foreign."""
    ours = owned_vids(want, previous)
    target = wanted(want)
    ports = {port.name: PortState(name=port.name, enabled=False) for port in state.ports} | {
        port.name: port for port in target.ports
    }
    vlans = (*target.vlans, *(vlan for vlan in state.vlans if vlan.vid not in ours))
    svis = (*target.svis, *(svi for svi in state.svis if svi.vid not in ours))
    return SwitchState(
        vlans=tuple(sorted(vlans, key=lambda vlan: vlan.vid)),
        ports=tuple(ports[name] for name in sorted(ports, key=port_order)),
        svis=tuple(sorted(svis, key=lambda svi: svi.vid)),
        ip_routing=state.ip_routing or target.ip_routing,
        ipv6_routing=state.ipv6_routing or target.ipv6_routing,
        virtual_router_mac=target.virtual_router_mac or state.virtual_router_mac,
        ssh_ipv4=_expected_guard(state.ssh_ipv4, target.ssh_ipv4),
        ssh_ipv6=_expected_guard(state.ssh_ipv6, target.ssh_ipv6),
        qos=expected_qos(state.qos, want, previous, dialect(want).defaults),
    )


def _expected_guard(has: SshGuard, target: SshGuard) -> SshGuard:
    """Ours where the plan has one; else none of ours, and somebody else's as it is."""
    foreign = target.asked is None and has.asked is not None and not has.ours
    return target.model_copy(update={"asked": has.asked}) if foreign else target


def _guards(state: SwitchState, target: SwitchState) -> Iterator[tuple[str, SshGuard, SshGuard]]:
    """By family: what is held, and what should be."""
    yield "IPv4", state.ssh_ipv4, target.ssh_ipv4
    yield "IPv6", state.ssh_ipv6, target.ssh_ipv6


# --- changes in words -------------------------------------------------------------------------------------------------


def _transition(old: str | None, new: str | None) -> Sequence[str]:
    if old is None:
        return ("added", new or "")
    return (old, "removed") if new is None else (old, "->", new)


def _vlan_changes(state: SwitchState, target: SwitchState, names: Names) -> Iterator[Change]:
    for vid in sorted({vlan.vid for vlan in (*state.vlans, *target.vlans)}):
        has, needs = state.vlan(vid), target.vlan(vid)
        path, subject = ("vlans", str(vid)), names.vlan(vid)
        if has is None or needs is None:
            if has is not needs:
                yield Change(path=path, subject=subject, field="", old=_shown(has), new=_shown(needs))
            continue
        if has.name != needs.name:
            yield Change(
                path=(*path, "name"),
                subject=subject,
                field="name",
                old=has.name or "(none)",
                new=needs.name or "(none)",
            )
        if has.other != needs.other:
            yield Change(
                path=(*path, "other"),
                subject=subject,
                field="other lines",
                old=_joined(has.other),
                new=_joined(needs.other),
            )


def _shown(vlan: VlanState | None) -> str | None:
    return None if vlan is None else vlan.name or ""


def _joined(lines: Sequence[str]) -> str | None:
    return "; ".join(lines) or None


def _trunk(vids: tuple[int, ...] | None) -> str:
    return "all" if vids is None else vid_ranges(vids)


def _port_changes(state: SwitchState, target: SwitchState, names: Names) -> Iterator[Change]:
    for needs in target.ports:
        has = state.port(needs.name)
        subject = names.port(needs.name)
        if has is None:
            yield Change(
                path=("ports", needs.name),
                subject=subject,
                field="",
                old=None,
                new="(the switch does not list this port)",
            )
            continue
        fields = (
            ("description", "description", has.description or "(none)", needs.description or "(none)"),
            ("enabled", "state", "up" if has.enabled else "shut", "up" if needs.enabled else "shut"),
            ("mode", "mode", has.mode, needs.mode),
            ("access_vlan", "access VLAN", str(has.access_vlan), str(needs.access_vlan)),
            ("native_vlan", "native VLAN", str(has.native_vlan), str(needs.native_vlan)),
            ("trunk_vlans", "trunk VLANs", _trunk(has.trunk_vlans), _trunk(needs.trunk_vlans)),
            ("mtu", "MTU", str(has.mtu or "default"), str(needs.mtu or "default")),
            ("qos_profile", "QoS profile", has.qos_profile or "(none)", needs.qos_profile or "(none)"),
            ("other", "other lines", _joined(has.other), _joined(needs.other)),
        )
        for key, field, old, new in fields:
            if old != new:
                yield Change(path=("ports", needs.name, key), subject=subject, field=field, old=old, new=new)


def _svi_changes(state: SwitchState, target: SwitchState, names: Names) -> Iterator[Change]:
    for vid in sorted({svi.vid for svi in (*state.svis, *target.svis)}):
        has, needs = state.svi(vid), target.svi(vid)
        path, subject = ("svis", str(vid)), f"gateway of {names.vlan(vid)}"
        if has is None or needs is None:
            if has is not needs:
                yield Change(path=path, subject=subject, field="", old=_svi_shown(has), new=_svi_shown(needs))
            continue
        fields = (
            ("addresses", "addresses", ", ".join(has.addresses) or "(none)", ", ".join(needs.addresses) or "(none)"),
            (
                "virtual_addresses",
                "shared addresses",
                ", ".join(has.virtual_addresses) or "(none)",
                ", ".join(needs.virtual_addresses) or "(none)",
            ),
            ("mtu", "MTU", str(has.mtu), str(needs.mtu)),
            ("enabled", "state", "up" if has.enabled else "shut", "up" if needs.enabled else "shut"),
            ("description", "description", has.description or "(none)", needs.description or "(none)"),
            ("other", "other lines", _joined(has.other), _joined(needs.other)),
        )
        for key, field, old, new in fields:
            if old != new:
                yield Change(path=(*path, key), subject=subject, field=field, old=old, new=new)


def _svi_shown(svi: SviState | None) -> str | None:
    return None if svi is None else svi.shown


def _global_changes(state: SwitchState, target: SwitchState) -> Iterator[Change]:
    if state.ip_routing != target.ip_routing:
        yield Change(path=("ip_routing",), subject="routing between VLANs", field="IPv4", old="off", new="on")
    if state.ipv6_routing != target.ipv6_routing:
        yield Change(path=("ipv6_routing",), subject="routing between VLANs", field="IPv6", old="off", new="on")
    if state.virtual_router_mac != target.virtual_router_mac:
        old, new = state.virtual_router_mac or "(none)", target.virtual_router_mac
        yield Change(path=("virtual_router_mac",), subject="shared gateways", field="MAC address", old=old, new=new)
    for word, has, needs in _guards(state, target):
        fields = (
            ("asked", "access list", has.asked, needs.asked),
            ("allowed", "let in", _let_in(has), _let_in(needs)),
            ("other", "other lines", _joined(has.other), _joined(needs.other)),
        )
        for key, field, held, wanted_ in fields:
            if held != wanted_:
                subject = f"SSH to the switch over {word}"
                yield Change(path=("ssh", word, key), subject=subject, field=field, old=held, new=wanted_)


def _qos_changes(
    state: SwitchState, target: SwitchState, want: SwitchPlan, previous: SwitchPlan | None
) -> Iterator[Change]:
    defaults = dialect(want).defaults
    for path, subject, field, old, new in qos_differences(state.qos, target.qos, want, previous, defaults):
        yield Change(path=("qos", *path), subject=subject, field=field, old=old, new=new)


def _let_in(guard: SshGuard) -> str | None:
    return None if guard.allowed is None else ", ".join(guard.allowed) or "nobody"
