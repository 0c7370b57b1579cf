#!/usr/bin/python3 -I
"""Keep the interrupts of some PCI devices on the cores of their own NUMA node: irq-pinning [--check] [--config FILE].

The i-th interrupt of a device goes to the i-th of its node's CPUs, and around again, so that each has one CPU and all share the load.
The node is the one that the kernel tells; where that is another than the file says, this is told and the kernel is believed.
`irq-pinning --policy DEVICE-PATH IRQ` answers irqbalance's policy script: ours are banned from balancing.
Exit: 0 all are where they belong (now), 1 some are not or a device is missing, 2 the settings cannot be read.
"""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIG = Path("/etc/pinion/irq-pinning.json")


@dataclass(frozen=True)
class Wanted:
    """The settings: *devices* as (name, PCI address, NUMA node or None), *classes* as (name, vendor, class), *cpus* by NUMA node."""

    devices: tuple[tuple[str, str, int | None], ...]
    classes: tuple[tuple[str, str, str], ...]
    cpus: dict[int, tuple[int, ...]]


def read(path: Path) -> Wanted:
    """The settings in *path*. Raises `OSError`, `ValueError`, `KeyError` or `TypeError`."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Wanted(
        tuple((entry["name"], entry["pci"], entry["numa_node"]) for entry in data["devices"]),
        tuple((entry["name"], entry["vendor"], entry["class"]) for entry in data["classes"]),
        {int(node): tuple(expand(written)) for node, written in data["cpus"].items()},
    )


def expand(written: str) -> Iterator[int]:
    """The CPUs of a kernel list, ``2-3,114``, in ascending order of writing."""
    for part in written.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Found:
    """One device of the machine: *name* for people, its folder in sysfs and the NUMA node that counts, None for unknown."""

    name: str
    folder: Path
    node: int | None


def devices(wanted: Wanted, sys_folder: Path, problems: list[str]) -> list[Found]:
    """The devices of the machine that *wanted* means. What is missing is added to *problems*."""
    bus, found = sys_folder / "bus/pci/devices", []
    for name, address, node in wanted.devices:
        folder = bus / address
        if not folder.exists():
            problems.append(f"{name}: there is no PCI device {address}")
            continue
        told = numa_node(folder)
        if told is not None and node is not None and told != node:
            problems.append(
                f"{name}: {address} hangs on NUMA node {told} and not {node}, as the hardware catalogue says"
            )
        found.append(Found(name, folder, told if told is not None else node))
    for name, vendor, kind in wanted.classes:
        found += [
            Found(f"{name} {folder.name}", folder, numa_node(folder))
            for folder in (sorted(bus.iterdir()) if bus.is_dir() else [])
            if text(folder / "vendor") == vendor and text(folder / "class").startswith(kind)
        ]
    return found


def text(path: Path) -> str:
    """What *path* says, empty when it says nothing."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def numa_node(folder: Path) -> int | None:
    """The NUMA node of a device; the kernel writes -1 where it does not know."""
    written = text(folder / "numa_node")
    return int(written) if written.isdigit() else None


def interrupts(folder: Path) -> list[int]:
    """The interrupts of a device: its MSI vectors, else its line."""
    vectors = folder / "msi_irqs"
    if vectors.is_dir():
        return sorted(int(entry.name) for entry in vectors.iterdir() if entry.name.isdigit())
    line = text(folder / "irq")
    return [int(line)] if line.isdigit() and line != "0" else []


def pin(found: Found, cpus: tuple[int, ...], proc: Path, check: bool, problems: list[str]) -> None:
    """Bring the interrupts of one device to *cpus*, or only tell what differs."""
    for position, number in enumerate(interrupts(found.folder)):
        affinity = proc / f"irq/{number}/smp_affinity_list"
        cpu = str(cpus[position % len(cpus)])
        try:
            current = affinity.read_text(encoding="ascii").strip()
            if current == cpu:
                continue
            if check:
                problems.append(f"{found.name}: interrupt {number} is on {current}, not {cpu}")
                continue
            affinity.write_text(cpu, encoding="ascii")
            print(f"{found.name}: interrupt {number}: {current} -> {cpu}")
        except FileNotFoundError:
            continue  # the driver has given it back in the meantime
        except OSError as error:
            managed = " (the kernel manages it by itself)" if error.errno in {errno.EIO, errno.EPERM} else ""
            problems.append(f"{found.name}: interrupt {number} stays where it is: {error.strerror}{managed}")


def main(arguments: list[str]) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="irq-pinning", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="say what differs and change nothing")
    parser.add_argument(
        "--policy", nargs=2, metavar=("DEVICE-PATH", "IRQ"), help="answer irqbalance about one interrupt"
    )
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--sys", type=Path, default=Path("/sys"))
    parser.add_argument("--proc", type=Path, default=Path("/proc"))
    options = parser.parse_args(arguments)
    problems: list[str] = []
    try:
        wanted = read(options.config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.config}: {error!r}", file=sys.stderr)
        return 2
    found = devices(wanted, options.sys, problems)
    if options.policy is not None:
        ours = {entry.folder.resolve() for entry in found}
        print("ban=true" if Path(options.policy[0]).resolve() in ours else "ban=false")
        return 0
    for entry in found:
        cpus = wanted.cpus.get(entry.node) if entry.node is not None else None
        if not cpus:
            problems.append(f"{entry.name}: no cores are kept for interrupts of NUMA node {entry.node}")
            continue
        pin(entry, cpus, options.proc, options.check, problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
