"""How loading a site file grows with its nodes: `python tests/benchmarks/site_load.py`.

Every node states its serial number and MAC address, so the file grows too. Prints the time a node as a ratio to the smallest size of the
same run (1.0 means linear), and the whole beside PyYAML's own loader, which reads the same text without checking anything.
"""

from __future__ import annotations

import time

import yaml

from pinion.site.loader import read

PIS_A_RACK = 48
RACKS = (20, 50, 105, 210)


def site(racks: int) -> str:
    """A site of *racks* racks, each with a switch, a network and 48 Pis."""
    lines = ["version: 1", "site: large", "region: here", "racks:"]
    lines += [f"  r{rack}: {{units: 47}}" for rack in range(racks)]
    lines += ["networks:", "  management:"]
    lines += ["    {vid: 2, purpose: management, prefix: 10.0.0.0/16, ranges: {switches: 10.0.1.0-10.0.9.0}}"]
    for rack in range(racks):
        lines.append(
            f"  edge-{rack}: {{vid: {rack + 100}, purpose: edge, prefix: 10.{1 + rack // 250}.{rack % 250}.0/24}}"
        )
    lines.append("switches:")
    for rack in range(racks):
        stated = f"platform: arista-eos, model: 7050SX3-48YC8, rack: r{rack}, unit: 47, network: management"
        lines.append(f"  tor-{rack + 1}: {{{stated}}}")
    lines.append("pis:")
    for rack in range(racks):
        lines += [
            f"  pi-{rack}:",
            f"    numbers: 1-{PIS_A_RACK}",
            "    board: raspberry-pi-5-8gb",
            "    hat: ai-hat-plus-2",
        ]
        lines += [
            f"    rack: r{rack}",
            f"    network: edge-{rack}",
            f"    ports: tor-{rack + 1} Ethernet1-48",
            "    nodes:",
        ]
        for number in range(1, PIS_A_RACK + 1):
            mark = rack * PIS_A_RACK + number
            mac = f"2c:cf:67:{mark >> 16:02x}:{mark >> 8 & 255:02x}:{mark & 255:02x}"
            lines.append(f'      {number}: {{serial: S{mark:08d}, mac: "{mac}"}}')
    return "\n".join(lines) + "\n"


def main() -> None:
    """Load sites of growing size and print processor seconds, a node's share relative to the smallest size, and the factor to bare YAML."""
    read(site(1).encode(), "warm-up")
    base = None
    for racks in RACKS:
        text, nodes = site(racks), racks * PIS_A_RACK
        started = time.process_time()
        loaded, problems = read(text.encode(), "large.yml")
        elapsed = time.process_time() - started
        if loaded is None:
            raise SystemExit(f"the site does not load: {problems[0]}")
        started = time.process_time()
        yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        bare = time.process_time() - started
        base = base if base is not None else elapsed / nodes
        share = f"{elapsed / nodes / base:4.2f} x a node of the smallest"
        print(
            f"{nodes:>6} nodes {len(text) / 1000:>7.0f} kB  {elapsed:6.3f} s  {share}  {elapsed / bare:4.1f} x bare YAML"
        )


if __name__ == "__main__":
    main()
