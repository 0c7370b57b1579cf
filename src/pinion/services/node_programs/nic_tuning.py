#!/usr/bin/python3 -I
"""Bring network cards to their settings: nic-tuning [--check] [--config FILE] [NIC ...].

Reads what is, by `ethtool`, `dcb` and sysfs, and sets only what differs, so it may run at any time: when a card appears, after a flap or a
reset of the card, and every minute. What a card cannot do is told and is no reason to leave out the rest.
Exit: 0 all are as wanted (now), 1 something is not or a card is missing, 2 the settings cannot be read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONFIG = Path("/etc/pinion/nic-tuning.json")
PRIORITIES = range(8)
#: ethtool(8): how `-k` names an offload, and how `-K` takes it.
OFFLOADS = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


class CannotError(Exception):
    """The card, or the machine, cannot do it; the text says what said so."""


@dataclass(frozen=True)
class Knob:
    """One setting of a card: what it is called, what is wanted, how it is read, and how it is set."""

    name: str
    wanted: str
    read: Callable[[], str]
    put: Callable[[], None]


@dataclass(frozen=True)
class Machine:
    """Where things are. *said* are answers of programs that no change has made old."""

    sys: Path
    rdma_cm: Path
    said: dict[tuple[str, ...], str] = field(default_factory=dict)

    def ask(self, *argv: str) -> str:
        """What a program that only reads says; asked once. Raises `CannotError`."""
        if argv not in self.said:
            self.said[argv] = self.run(*argv)
        return self.said[argv]

    def change(self, *argv: str) -> None:
        """Run a program that changes something. Raises `CannotError`."""
        self.said.clear()
        self.run(*argv)

    def run(self, *argv: str) -> str:
        """What a program says. Raises `CannotError` when it fails."""
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotError(f"{argv[0]}: {error}") from error
        if done.returncode != 0:
            raise CannotError(f"{' '.join(argv)}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
        return done.stdout

    def rdma_device(self, nic: str) -> str:
        """The RDMA device of *nic* (``mlx5_0``). Raises `CannotError`."""
        folder = self.sys / "class/net" / nic / "device/infiniband"
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        if not names:
            raise CannotError("it has no RDMA device; is its driver's RDMA half loaded?")
        return names[0]


def table(text: str, section: str = "") -> dict[str, str]:
    """The `key: value` lines of *text* that follow the heading *section*, by key; all of them without one."""
    found: dict[str, str] = {}
    inside = not section
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if section and colon and not value.strip() and not line[:1].isspace():
            inside = key.strip() == section
        elif inside and colon:
            found[key.strip()] = value.strip()
    return found


def asked(found: dict[str, str], key: str) -> str:
    """The value of *key* that a card tells. Raises `CannotError` when it tells none."""
    value = found.get(key, "n/a")
    if value == "n/a":
        raise CannotError(f"the card tells no {key!r}")
    return value.split()[0]


def knobs(machine: Machine, nic: str, wanted: dict[str, Any]) -> Iterator[Knob]:
    """The settings of one card, in the order in which they are made."""
    yield mtu(machine, nic, str(wanted["mtu"]))
    if wanted["ring"] is not None:
        for direction in ("rx", "tx"):
            yield ring(machine, nic, direction, str(wanted["ring"]))
    for direction, microseconds in wanted["moderation"].items():
        yield adaptive(machine, nic, direction, "on" if microseconds is None else "off")
        if microseconds is not None:
            yield usecs(machine, nic, direction, str(microseconds))
    for name, state in wanted["offloads"].items():
        yield offload(machine, nic, name, "on" if state else "off")
    if wanted["pause"] is not None:
        for direction in ("rx", "tx"):
            yield pause(machine, nic, direction, "on" if wanted["pause"] else "off")
    if wanted["priorities"] is not None:
        yield trust(machine, nic, {int(dscp): priority for dscp, priority in wanted["priorities"].items()})
    if wanted["pfc"] is not None:
        yield pfc(machine, nic, frozenset(wanted["pfc"]))
    if wanted["tos"] is not None:
        yield tos(machine, nic, str(wanted["tos"]))


def mtu(machine: Machine, nic: str, wanted: str) -> Knob:
    """Largest packet, in bytes."""
    path = machine.sys / "class/net" / nic / "mtu"

    def put() -> None:
        machine.change("ip", "link", "set", "dev", nic, "mtu", wanted)

    return Knob("MTU", wanted, lambda: path.read_text(encoding="ascii").strip(), put)


def ring(machine: Machine, nic: str, direction: str, wanted: str) -> Knob:
    """Descriptors of the receive or the transmit ring."""

    def read() -> str:
        return asked(table(machine.ask("ethtool", "-g", nic), "Current hardware settings"), direction.upper())

    def put() -> None:
        machine.change("ethtool", "-G", nic, direction, wanted)

    return Knob(f"{direction} ring", wanted, read, put)


def adaptive(machine: Machine, nic: str, direction: str, wanted: str) -> Knob:
    """Whether the card moderates its interrupts by itself."""

    def read() -> str:
        words = table(machine.ask("ethtool", "-c", nic)).get("Adaptive RX", "").replace("TX:", "").split()
        if len(words) != len(("rx", "tx")) or "n/a" in words:
            raise CannotError("the card tells no adaptive moderation")
        return words[("rx", "tx").index(direction)]

    def put() -> None:
        machine.change("ethtool", "-C", nic, f"adaptive-{direction}", wanted)

    return Knob(f"adaptive {direction} moderation", wanted, read, put)


def usecs(machine: Machine, nic: str, direction: str, wanted: str) -> Knob:
    """Microseconds from a packet to its interrupt."""

    def read() -> str:
        return asked(table(machine.ask("ethtool", "-c", nic)), f"{direction}-usecs")

    def put() -> None:
        machine.change("ethtool", "-C", nic, f"{direction}-usecs", wanted)

    return Knob(f"{direction} moderation in microseconds", wanted, read, put)


def offload(machine: Machine, nic: str, name: str, wanted: str) -> Knob:
    """A segmentation offload."""

    def read() -> str:
        return asked(table(machine.ask("ethtool", "-k", nic)), name)

    def put() -> None:
        machine.change("ethtool", "-K", nic, OFFLOADS[name], wanted)

    return Knob(name, wanted, read, put)


def pause(machine: Machine, nic: str, direction: str, wanted: str) -> Knob:
    """IEEE 802.3x pause of the whole link; a card has that or PFC."""

    def read() -> str:
        return asked(table(machine.ask("ethtool", "-a", nic)), direction.upper())

    def put() -> None:
        machine.change("ethtool", "-A", nic, direction, wanted)

    return Knob(f"{direction} pause", wanted, read, put)


def trust(machine: Machine, nic: str, wanted: dict[int, int]) -> Knob:
    """Which priority a packet has, by its DSCP. The kernel's driver trusts DSCP as soon as one such entry stands."""

    def read() -> str:
        entries = json.loads(machine.ask("dcb", "-j", "app", "show", "dev", nic)).get("dscp_prio", [])
        found = {int(entry[0]): int(entry[1]) for entry in entries}
        return mapping({dscp: found[dscp] for dscp in wanted if dscp in found})

    def put() -> None:
        machine.change("dcb", "app", "replace", "dev", nic, "dscp-prio", *mapping(wanted).split())

    return Knob("priority by DSCP", mapping(wanted), read, put)


def mapping(entries: dict[int, int]) -> str:
    """``26:3 48:6``, in ascending order of DSCP."""
    return " ".join(f"{dscp}:{entries[dscp]}" for dscp in sorted(entries))


def pfc(machine: Machine, nic: str, wanted: frozenset[int]) -> Knob:
    """Priorities that are paused one by one (IEEE 802.1Qbb)."""

    def read() -> str:
        states = json.loads(machine.ask("dcb", "-j", "pfc", "show", "dev", nic))["prio_pfc"]
        return listed({priority for priority, state in enumerate(states) if state in {True, "on"}})

    def put() -> None:
        states = (f"{priority}:{'on' if priority in wanted else 'off'}" for priority in PRIORITIES)
        machine.change("dcb", "pfc", "set", "dev", nic, "prio-pfc", *states)

    return Knob("priorities with PFC", listed(wanted), read, put)


def listed(priorities: frozenset[int] | set[int]) -> str:
    """``3``, ``3,4`` or ``none``."""
    return ",".join(map(str, sorted(priorities))) or "none"


def tos(machine: Machine, nic: str, wanted: str) -> Knob:
    """The type of service of connections that the RDMA connection manager makes (configfs of rdma_cm)."""

    def path() -> Path:
        folder = machine.rdma_cm / machine.rdma_device(nic)
        folder.mkdir(exist_ok=True)  # the kernel then fills it
        return folder / "ports/1/default_roce_tos"

    def put() -> None:
        path().write_text(wanted, encoding="ascii")

    return Knob("type of service of RDMA connections", wanted, lambda: path().read_text(encoding="ascii").strip(), put)


def bring(nic: str, knob: Knob, check: bool) -> str | None:
    """Bring one setting of one card to what is wanted, or only tell. What remains wrong, or None."""
    try:
        before = knob.read()
        if before == knob.wanted:
            return None
        if check:
            return f"{nic}: {knob.name} is {before or 'not set'}, not {knob.wanted}"
        knob.put()
        after = knob.read()
    except (CannotError, OSError, ValueError, KeyError) as error:
        return f"{nic}: {knob.name} cannot be {knob.wanted}: {error}"
    if after != knob.wanted:
        return f"{nic}: {knob.name} did not take: {after or 'not set'}, not {knob.wanted}"
    print(f"{nic}: {knob.name}: {before or 'not set'} -> {after}")
    return None


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="nic-tuning", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nics", nargs="*", help="some cards only")
    parser.add_argument("--check", action="store_true", help="say what differs and change nothing")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--sys", type=Path, default=Path("/sys"))
    parser.add_argument("--rdma-cm", type=Path, default=Path("/sys/kernel/config/rdma_cm"))
    options = parser.parse_args(arguments)
    machine, problems = Machine(options.sys, options.rdma_cm), []
    try:
        stated: dict[str, dict[str, Any]] = json.loads(options.config.read_text(encoding="utf-8"))
        chosen = {name: list(knobs(machine, name, wanted)) for name, wanted in stated.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{options.config}: {error!r}", file=sys.stderr)
        return 2
    for name, settings in chosen.items():
        if options.nics and name not in options.nics:
            continue
        if not (machine.sys / "class/net" / name).exists():
            problems.append(f"{name}: there is no such network card")
            continue
        found = (bring(name, knob, options.check) for knob in settings)
        problems += [problem for problem in found if problem is not None]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
