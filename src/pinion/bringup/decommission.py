"""A node leaves its site: certificate revoked, data wiped on request, NetBox and switch port as the site file says, and all of it proved.

Invariants:

* Nothing is touched before the site file states the node as leaving, the stack's preview concerns nothing but that node, and the host has
  answered what is needed of it.
* Every step may be run again. What cannot be asked a second time (the serial number of a certificate that is wiped, what a wipe found) is
  noted on this machine before the step that makes it so.
* The authority renews nothing for the node before anything is wiped: a run that is killed leaves no node that can renew what it has. What
  the node says of itself (its serial number) is never what that hangs on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from pinion.bringup.cluster_node import ForbiddenError
from pinion.bringup.host_shell import UnreachedError
from pinion.bringup.leaving_host import Wiped
from pinion.bringup.refusing import Refused
from pinion.bringup.stack import Foreseen
from pinion.checks.claims import checks
from pinion.checks.model import Check, Finding, Outcome, RecordProbe, SwitchProbe
from pinion.plan.cluster import MEMBERS
from pinion.plan.leaving import behind, ports
from pinion.plan.model import HostPlan, Plan
from pinion.provider.plugin.differences import path_steps
from pinion.site.model import Site

_RECORD, _SWITCH, _NODE = "pinion:netbox:Device", "pinion:switch:Config", "pinion:cluster:Node"
_MEMBERS = "kubernetes:core/v1:ConfigMap"


class NotReadyError(Exception):
    """Something must be done first; nothing has been touched. The text says what."""


class Note(BaseModel):
    """What this machine remembers of a node that leaves."""

    model_config = ConfigDict(extra="ignore")

    serial: str | None = None
    revoked: str | None = None
    wiped: str | None = None
    report: Wiped | None = None


class Notes:
    """The note of one node: *path*, written by rename."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Note:
        """The note; an empty one where there is none, or one that nobody can read."""
        try:
            return Note.model_validate_json(self.path.read_text())
        except (OSError, ValidationError):
            return Note()

    def write(self, note: Note) -> None:
        """Keep *note*."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.write_text(note.model_dump_json(indent=1) + "\n")
        beside.rename(self.path)


class Means(Protocol):
    """What a decommissioning does to the world."""

    def foreseen(self) -> Sequence[Foreseen]:
        """What the stack's update would change. Raises `StackError`."""

    def update(self, tell: Callable[[str], None]) -> int:
        """Bring the stack up; how many resources changed. Raises `StackError`."""

    def serial(self, host: HostPlan) -> int | None:
        """The certificate of *host*, None without one. Raises `UnreachedError`, `HostRefusedError`."""

    def look(self, host: HostPlan) -> Wiped:
        """What a wipe would find. Raises `UnreachedError`, `HostRefusedError`."""

    def wipe(self, host: HostPlan) -> Wiped:
        """Wipe it. Raises `UnreachedError`, `HostRefusedError`."""

    def refuse(self, node: str) -> Refused | None:
        """Have the authority renew nothing for *node*; None where others run it. May be run again. Raises `AuthorityError`."""

    def revoke(self, serial: int, reason: str) -> bool:
        """Have the authority never renew it; False when that was so before. Raises `AuthorityError`."""

    def drain(self, node: str) -> str | None:
        """Take the cluster's pods off *node*; what was done, None when the cluster has no such node. Raises `ClusterNodeError`."""

    def forget(self, node: str) -> bool:
        """Take the Node object away; False when there was none. Raises `ForbiddenError`, `ClusterNodeError`."""

    def verify(self, wanted: Sequence[Check]) -> Sequence[Finding]:
        """Run checks."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the operator asked for. *serial*: the certificate's number, where it is known. *offline*: the host is not asked for anything.

    *drain* is false for a node whose pods may be cut off. *stolen*: whoever answers for the node is not believed.
    """

    wipe: bool = False
    offline: bool = False
    drain: bool = True
    others: bool = False
    serial: int | None = None
    reason: str = "decommissioned"
    stolen: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found before anything is touched. *here*: what is on the host now, None when it was not looked at."""

    serial: int | None
    authority: bool
    reached: bool
    changes: tuple[Foreseen, ...]
    here: Wiped | None


@dataclass(slots=True)
class Result:
    """What came of it: each step with what is to be said of it; *problems* make the exit code 1, *left* is for somebody else to do."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    report: Wiped | None = None
    refused: Refused | None = None


def not_stated(site: Site, file: Path, name: str) -> str | None:
    """What to write into the site file so that *name* leaves; None when it stands there."""
    if name in site.decommissioned:
        return None
    lines = file.read_text(encoding="utf-8").splitlines()
    wanted = f"decommissioned: [{', '.join([*site.decommissioned, name])}]"
    there = [number for number, line in enumerate(lines, start=1) if line.startswith("decommissioned:")]
    place = f"{file}:{there[0] if there else len(lines) + 1}"
    return f"{place} the site file does not say that {name} leaves; nothing was touched\n    write there: {wanted}"


def own_changes(plan: Plan, name: str, changes: Sequence[Foreseen]) -> tuple[list[Foreseen], list[Foreseen]]:
    """*changes* that are the node's own (its record, its label, its ports), and all others."""
    mine: list[Foreseen] = []
    others: list[Foreseen] = []
    for change in changes:
        (mine if _is_own(plan, name, change) else others).append(change)
    return mine, others


def _is_own(plan: Plan, name: str, change: Foreseen) -> bool:
    if change.name == name and change.kind in (_RECORD, _NODE):
        return True
    if (change.kind, change.name, change.operation) == (_MEMBERS, MEMBERS, "update"):
        return bool(change.paths) and {path_steps(path) for path in change.paths} == {("data", name)}
    own = {port for switch, port in ports(plan, name) if switch == change.name}
    if change.kind not in (_RECORD, _SWITCH) or change.operation != "update" or not own or not change.paths:
        return False
    return all(_port_of(path) in own for path in change.paths)


def _port_of(path: str) -> str | None:
    """The port that a property of a switch belongs to: ``ports.Ethernet3.enabled`` to Ethernet3."""
    steps = path_steps(path)
    return str(steps[1]) if len(steps) > 1 and steps[0] in ("ports", "interfaces") else None


def own_checks(plan: Plan, name: str) -> tuple[Check, ...]:
    """The claims that prove a node off: its record, and its switch ports."""
    plugged = set(ports(plan, name))
    return tuple(
        check
        for check in checks(plan)
        if (isinstance(check.probe, RecordProbe) and check.probe.object == "device" and check.probe.name == name)
        or (
            isinstance(check.probe, SwitchProbe)
            and check.probe.element == "port"
            and (check.probe.switch, check.probe.key) in plugged
        )
    )


def survey(plan: Plan, host: HostPlan, wish: Wish, means: Means, notes: Notes) -> Survey:
    """Look at everything that the steps need; touches nothing.

    Raises `NotReadyError`, and what *means* raises.
    """
    changes = tuple(means.foreseen())
    _, others = own_changes(plan, host.name, changes)
    if others and not wish.others:
        listed = "\n".join(f"    {change}" for change in others)
        raise NotReadyError(
            f"the stack's update would change more than {host.name}; nothing was touched:\n{listed}\n"
            "bring the stack up without this node first, take back what else has changed in the site file, or say --others"
        )
    known = notes.read()
    authority = plan.authority is not None
    serial = wish.serial if wish.serial is not None else int(known.serial, 16) if known.serial is not None else None
    asks = wish.wipe or (authority and wish.serial is None)
    if wish.offline or wish.stolen or not asks:
        return Survey(serial, authority, False, changes, None)
    here = None
    try:
        if authority and wish.serial is None:
            serial = means.serial(host) or serial
        if wish.wipe:
            here = means.look(host)
    except UnreachedError as error:
        lacking = []
        if authority and serial is None:
            lacking.append(
                "its certificate cannot be asked for: give --serial HEX, or say --offline and it ends by itself"
            )
        if wish.wipe and known.wiped is None:
            lacking.append(
                "nothing can be wiped: say it without --wipe, and destroy the medium or write it anew by hand"
                " (docs/decommissioning.md)"
            )
        if lacking:
            raise NotReadyError(f"{error}\n    " + "\n    ".join([*lacking, "nothing was touched"])) from error
        return Survey(serial, authority, False, changes, None)
    return Survey(serial, authority, True, changes, here)


def carry_out(
    plan: Plan,
    host: HostPlan,
    wish: Wish,
    found: Survey,
    means: Means,
    notes: Notes,
    tell: Callable[[str, str], None],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Result:
    """Do it, step by step; *tell* hears (step, what was done). Raises what *means* raises; running again goes on."""
    result = Result()

    def did(step: str, said: str) -> None:
        result.steps.append((step, said))
        tell(step, said)

    at = now().isoformat(timespec="seconds")
    note = notes.read()
    if found.serial is not None:
        note.serial = f"{found.serial:X}"
        notes.write(note)
    if wish.stolen:  # a thief renews while pods are moved
        _refuse(host, found, means, did, result)
    elif wish.drain and not wish.offline and (drained := means.drain(host.name)) is not None:
        did("drain", drained)
    if not wish.stolen:
        _refuse(host, found, means, did, result)
    _revoke(found, wish, means, notes, note, at, did)
    if wish.wipe:
        _wipe(host, found, means, notes, note, at, did, result)
    if found.changes:
        changed = means.update(lambda line: tell("stack", line))
        did("stack", f"{changed} resources changed: NetBox says decommissioning, {_ports(plan, host.name)} shut")
    else:
        did("stack", "held this already")
    try:
        if means.forget(host.name):
            did("cluster", f"node {host.name} taken out of the cluster")
    except ForbiddenError:  # deleting nodes is more than deploying takes
        result.left.append(
            f"the Node object, cordoned: the kubeconfig's user may not delete nodes; who may: kubectl delete node {host.name}"
        )
    _prove(plan, host, found, wish, means, did, result)
    return result


def _refuse(host: HostPlan, found: Survey, means: Means, did: Callable[[str, str], None], result: Result) -> None:
    if not found.authority:
        return
    result.refused = means.refuse(host.name)
    if result.refused is None:
        did("renewal", "others run the authority: have them refuse the node by name")
        result.left.append("the authority is run elsewhere and may renew what was copied from the node")
        return
    ends = result.refused.ends.strftime("%Y-%m-%d %H:%M UTC")
    did(
        "renewal", f"refused by name; whatever was copied from {host.name}, renewed or rekeyed before is over by {ends}"
    )


def _revoke(
    found: Survey, wish: Wish, means: Means, notes: Notes, note: Note, at: str, did: Callable[[str, str], None]
) -> None:
    if not found.authority:
        did("certificate", "the site has no authority: there is nothing to revoke")
    elif found.serial is None:
        why = "the host has none" if found.reached else "its number is not known; it ends by itself"
        did("certificate", f"not revoked: {why}")
    else:
        new = means.revoke(found.serial, wish.reason)
        note.revoked = note.revoked or at
        notes.write(note)
        did("certificate", f"{found.serial:X} {'is not renewed any more' if new else 'was revoked before'}")


def _wipe(
    host: HostPlan,
    found: Survey,
    means: Means,
    notes: Notes,
    note: Note,
    at: str,
    did: Callable[[str, str], None],
    result: Result,
) -> None:
    if not found.reached:
        result.report = note.report
        did("wipe", f"was done before ({note.wiped}); the host cannot be reached any more")
        return
    report = means.wipe(host)
    result.report = report
    for said in report.failed:
        result.problems.append(f"not wiped: {said}")
    if report.wiped or note.report is None:
        note.report = report
    if not report.failed:
        note.wiped = at
        notes.write(note)
    did("wipe", wipe_words(report))


def wipe_words(report: Wiped) -> str:
    """What a wipe did, in a line."""
    secret = [entry for entry in report.wiped if entry.overwritten]
    plain = [entry for entry in report.wiped if not entry.overwritten]
    said = [
        f"{sum(entry.files for entry in some)} files ({sum(entry.bytes for entry in some)} bytes) {how}"
        for some, how in ((secret, "overwritten and removed"), (plain, "removed"))
        if some
    ]
    return ", ".join(said) or "nothing was left to wipe"


def _ports(plan: Plan, name: str) -> str:
    return ", ".join(f"{switch} {port}" for switch, port in ports(plan, name))


def _prove(
    plan: Plan,
    host: HostPlan,
    found: Survey,
    wish: Wish,
    means: Means,
    did: Callable[[str, str], None],
    result: Result,
) -> None:
    result.findings = tuple(means.verify(own_checks(plan, host.name)))
    bad = [finding for finding in result.findings if finding.outcome is not Outcome.PROVED]
    result.problems += [
        f"{finding.check.claim} {finding.check.expected!r}: {finding.outcome.value}, found {finding.found!r}"
        for finding in bad
    ]
    proved = len(result.findings) - len(bad)
    said = f"{proved} of {len(result.findings)} claims proved (NetBox's record, switch ports)"
    if found.serial is not None and found.authority:
        if means.revoke(found.serial, wish.reason):
            result.problems.append(f"the authority did not know that certificate {found.serial:X} is revoked")
        else:
            said += "; the authority has the certificate as revoked"
    did("verify", said)


def stays(host: HostPlan, found: Survey, report: Wiped | None) -> tuple[str, ...]:
    """What is still there when all is done, in plain words."""
    said = []
    if report is None:
        paths = ", ".join(held.path for held in behind(host).data if held.secret)
        said.append(f"data and keys are still on the node's medium ({paths}); it was not wiped")
    else:
        said.append("the operating system, its logs and packages, and the node's SSH host key are still on its medium")
        said += [f"{place}: {what}" for place, what in report.trimmed.items()]
        said += [
            f"{medium}: the medium may keep old copies of what was overwritten in blocks that it has set aside; to be sure, write it anew "
            "whole, or destroy it"
            for medium in report.media
            if not medium.endswith(", disk")
        ]
    if found.authority and found.serial is None and not found.reached:
        said.append("a certificate whose number is not known counts until it ends, and is not renewed")
    return tuple(said)
