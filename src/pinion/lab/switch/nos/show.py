"""What the `show` commands print. Only what is so: what the data plane does not know is not shown."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence

from . import text
from .config import (
    DEFAULT_MTU,
    DEFAULT_VLAN,
    Config,
    Ethernet,
    Management,
    Vlan,
    VlanInterface,
    interface_order,
    short_name,
)
from .core import ConfigSession, SessionState, Switch
from .dataplane import DataPlaneError, Tagging, desired
from .grammar import CliError

#: What this switch calls itself.
MODEL = "Pinion Lab ToR"


def version(switch: Switch) -> str:
    """``show version``."""
    return "\n".join(
        (
            MODEL,
            "Software: command line of the Arista EOS dialect, data plane Open vSwitch",
            f"Uptime: {switch.clock():.0f} seconds",
            f"Data plane: {switch.fault or 'in step with running-config'}",
        )
    )


def configuration(command: str, switch: Switch, config: str) -> str:
    """A configuration with EOS's heading."""
    return f"! Command: {command}\n! device: {switch.running.hostname} ({MODEL})\n!\n{config.rstrip()}"


def sections(config: str, pattern: str) -> str:
    """The blocks of *config* that have a line which matches *pattern*, with all their lines."""
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise CliError(f"% Invalid input: {pattern}: {error}") from error
    blocks: list[list[str]] = []
    for line in config.splitlines():
        if line.startswith(" ") and blocks:
            blocks[-1].append(line)
        elif line not in {"!", "end"}:
            blocks.append([line])
    return "\n".join(line for block in blocks if any(map(expression.search, block)) for line in block)


def interface_blocks(config: Config, names: Sequence[str]) -> str:
    """The blocks of the interfaces *names*."""
    wanted = {f"interface {name}" for name in names}
    return "\n".join(line for block in text.blocks(config) if block[0] in wanted for line in block)


def unsaved(switch: Switch) -> str:
    """``show running-config diffs``."""
    saved = (switch.startup() or "").splitlines()
    running = text.render(switch.running).splitlines()
    return "\n".join(
        difflib.unified_diff(saved, running, "flash:/startup-config", "system:/running-config", lineterm="")
    )


def session(switch: Switch, name: str) -> ConfigSession:
    """The session *name*; `CliError` when there is none."""
    found = switch.sessions.get(name)
    if found is None:
        raise CliError(f"% Session {name} not found")
    return found


def sessions(switch: Switch, terminal: str) -> str:
    """``show configuration sessions detail``."""
    rows = []
    for known in switch.sessions.values():
        users = list(known.terminals.items()) or [("", "")]
        left = ""
        if switch.timer is not None and switch.timer.session == known.name:
            minutes, seconds = divmod(max(0, round(switch.timer.deadline - switch.clock())), 60)
            left = f"{minutes}m{seconds}s"
        for place, user in users:
            mark = "*" if place == terminal else ""
            rows.append([mark, known.name, str(known.state), user, place, left])
    heading = "Maximum number of completed sessions: 1\nMaximum number of pending sessions: 5\n\n"
    return heading + _table(["", "Name", "State", "User", "Terminal", "Commit Time Left"], rows)


def sessions_json(switch: Switch, terminal: str) -> str:
    """The same as JSON."""
    listed = {}
    for known in switch.sessions.values():
        entry: dict[str, object] = {
            "state": str(known.state),
            "description": "",
            "instances": {
                place: {"user": user, "terminal": place, "currentTerminal": place == terminal}
                for place, user in known.terminals.items()
            },
        }
        if switch.timer is not None and known.state is SessionState.ARMED:
            entry["commitBy"] = switch.timer.deadline
        if known.completed is not None:
            entry["completedTime"] = known.completed.timestamp()
        listed[known.name] = entry
    return json.dumps({"maxSavedSessions": 1, "maxOpenSessions": 5, "sessions": listed}, indent=4)


def vlans(switch: Switch) -> str:
    """``show vlan``."""
    members: dict[int, list[str]] = {}
    for port in desired(switch.running).ports:
        for vid in {port.tag, *port.trunks} - {None}:
            members.setdefault(vid or 0, []).append(short_name(port.name))
    known = {DEFAULT_VLAN: Vlan(DEFAULT_VLAN), **switch.running.vlans}
    lines = [
        f"{'VLAN':<5} {'Name':<32} {'Status':<9} Ports",
        f"{'-' * 5} {'-' * 32} {'-' * 9} {'-' * 31}",
    ]
    lines += [
        f"{vid:<5} {known[vid].shown:<32} {'active':<9} {', '.join(members.get(vid, []))}".rstrip()
        for vid in sorted(known)
    ]
    return "\n".join(lines)


def interfaces_status(switch: Switch) -> str:
    """``show interfaces status``."""
    carriers = _carriers(switch)
    planes = {port.name: port for port in desired(switch.running).ports}
    rows = []
    for name in sorted(switch.running.ethernets, key=interface_order):
        port, plane = switch.running.ethernets[name], planes[name]
        if port.shutdown:
            status = "disabled"
        elif plane.tagging is Tagging.NONE:
            status = "inactive"
        else:
            status = "connected" if carriers.get(name) else "notconnect"
        rows.append([short_name(name), port.description, status, _vlan_shown(port)])
    for name, management in switch.running.managements.items():
        status = "disabled" if management.shutdown else "connected" if carriers.get(name) else "notconnect"
        rows.append([short_name(name), management.description, status, "routed"])
    return _table(["Port", "Name", "Status", "Vlan"], rows)


def _vlan_shown(port: Ethernet) -> str:
    return "trunk" if port.trunk else str(port.access_vlan)


def interfaces_description(switch: Switch) -> str:
    """``show interfaces description``."""
    carriers = _carriers(switch)
    config = switch.running
    interfaces: tuple[Ethernet | Management | VlanInterface, ...] = (
        *(config.ethernets[name] for name in sorted(config.ethernets, key=interface_order)),
        *config.managements.values(),
        *config.svis.values(),
    )
    rows = [
        [
            short_name(known.name),
            "admin down" if known.shutdown else "up",
            "up" if carriers.get(known.name) else "down",
            known.description,
        ]
        for known in interfaces
    ]
    return _table(["Interface", "Status", "Protocol", "Description"], rows)


def ip_interfaces(switch: Switch) -> str:
    """``show ip interface brief``."""
    carriers = _carriers(switch)
    rows = []
    interfaces: tuple[Management | VlanInterface, ...] = (
        *switch.running.managements.values(),
        *switch.running.svis.values(),
    )
    for known in interfaces:
        address = next((address.text for address in known.addresses if not address.ipv6), "unassigned")
        status = "admin down" if known.shutdown else "up"
        mtu = str(known.mtu if isinstance(known, VlanInterface) else DEFAULT_MTU)
        rows.append([known.name, address, status, "up" if carriers.get(known.name) else "down", mtu])
    return _table(["Interface", "IP Address", "Status", "Protocol", "MTU"], rows)


def mac_table(switch: Switch) -> str:
    """``show mac address-table``: what the data plane has learned."""
    try:
        entries = sorted(switch.plane.mac_table())
    except DataPlaneError as error:
        raise CliError(f"% Error: data plane: {error}") from error
    rows = [
        [f"{entry.vid:>4}", _dotted(entry.mac), "DYNAMIC", short_name(entry.port), f"{entry.age} s ago"]
        for entry in entries
    ]
    table = _table(["Vlan", "Mac Address", "Type", "Ports", "Last Seen"], rows)
    return f"{'Mac Address Table':^60}\n{'-' * 60}\n\n{table}\nTotal Mac Addresses for this criterion: {len(rows)}"


def _dotted(mac: str) -> str:
    digits = mac.replace(":", "")
    return ".".join(digits[place : place + 4] for place in (0, 4, 8))


def _carriers(switch: Switch) -> dict[str, bool]:
    try:
        return switch.plane.carriers()
    except DataPlaneError as error:
        raise CliError(f"% Error: data plane: {error}") from error


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    listed = [list(row) for row in rows]
    widths = [max([len(title), *(len(row[place]) for row in listed)]) for place, title in enumerate(heading)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ([list(heading), rule, *listed])
    )


def piped(output: str, pipes: Sequence[str]) -> str:
    """*output* through ``include``, ``exclude``, ``begin``, ``section``, ``grep``, ``no-more``. `CliError` for another."""
    for pipe in pipes:
        word, _, pattern = pipe.partition(" ")
        if word == "no-more" and not pattern:
            continue
        if word == "section":
            output = sections(output, pattern)
            continue
        if word not in {"include", "exclude", "begin", "grep"} or not pattern:
            raise CliError(f"% Invalid input (at token 0: '{word}')")
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise CliError(f"% Invalid input: {pattern}: {error}") from error
        lines = output.splitlines()
        if word == "begin":
            first = next((place for place, line in enumerate(lines) if expression.search(line)), len(lines))
            output = "\n".join(lines[first:])
        else:
            output = "\n".join(line for line in lines if bool(expression.search(line)) != (word == "exclude"))
    return output
