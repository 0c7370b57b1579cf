"""CPU sets: how a server's processors are divided between the system, interrupts and workloads. Pure.

A CPU set is written as the kernel writes it, a cpulist (``0-55,112-167``; cpuset(7), "List format"). The division is by whole physical
cores, both hardware threads of each: two threads of one core share its caches and its execution units, so a thread left to the system
would disturb the workload on the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pinion.site.catalog import NumaMap

Cpus = frozenset[int]


def parse(written: str) -> Cpus:
    """The CPU set that a cpulist names. Raises `ValueError` for what is none."""
    found: set[int] = set()
    for part in written.split(",") if written.strip() else ():
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if match is None:
            raise ValueError(f"{part!r} of {written!r} is neither a CPU nor a span of CPUs")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{part!r} of {written!r} runs backwards")
        found |= set(range(first, last + 1))
    return frozenset(found)


def text(cpus: Iterable[int]) -> str:
    """*cpus* as the shortest cpulist, in ascending order; empty text for none."""
    spans: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


@dataclass(frozen=True, slots=True)
class Division:
    """What each CPU of a server is for. The three sets are disjoint and together all CPUs.

    *system* runs the operating system, the kubelet and whatever is not pinned; *interrupts* serves the GPUs' and RDMA NICs' interrupts;
    *isolated* is left to workloads. *interrupts_of* gives the interrupt CPUs of each NUMA node.
    """

    system: Cpus
    interrupts: Cpus
    isolated: Cpus
    interrupts_of: Mapping[int, Cpus]

    @property
    def housekeeping(self) -> Cpus:
        """All that is kept from workloads: system and interrupts."""
        return self.system | self.interrupts


def divide(numa: NumaMap, system_cores: int, interrupt_cores: int) -> Division:
    """Keep *system_cores* and then *interrupt_cores* physical cores of every NUMA node; the rest is isolated.

    The first cores are kept because CPU 0 boots and the kernel refuses to make it tickless (Linux Documentation/timers/no_hz.rst).
    Raises `ValueError` when a node has no core left for workloads.
    """
    system: set[int] = set()
    isolated: set[int] = set()
    interrupts_of: dict[int, Cpus] = {}
    for number, node in enumerate(numa.nodes):
        cores = physical_cores(parse(node.cpus), numa.threads)
        if system_cores + interrupt_cores >= len(cores):
            raise ValueError(f"NUMA node {number} has {len(cores)} cores, and none is left for workloads")
        kept = cores[:system_cores]
        served = cores[system_cores : system_cores + interrupt_cores]
        system |= {cpu for core in kept for cpu in core}
        interrupts_of[number] = frozenset(cpu for core in served for cpu in core)
        isolated |= {cpu for core in cores[system_cores + interrupt_cores :] for cpu in core}
    return Division(
        system=frozenset(system),
        interrupts=frozenset().union(*interrupts_of.values()),
        isolated=frozenset(isolated),
        interrupts_of=interrupts_of,
    )


def physical_cores(cpus: Cpus, threads: int) -> list[tuple[int, ...]]:
    """The physical cores of one NUMA node, each with its hardware threads.

    Linux numbers the first thread of every core before the second threads (as on the x86 servers of the catalogue), so the node's CPUs
    in ascending order are *threads* runs of equal length and the i-th of each run is one core.
    """
    ordered = sorted(cpus)
    count, rest = divmod(len(ordered), threads)
    if rest:
        raise ValueError(f"{len(ordered)} CPUs are no whole number of cores with {threads} threads")
    return [tuple(ordered[core + thread * count] for thread in range(threads)) for core in range(count)]
