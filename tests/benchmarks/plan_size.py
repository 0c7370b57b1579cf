"""How planning grows with the number of nodes: `python tests/benchmarks/plan_size.py`.

Prints the time of each size as a ratio to the smallest one in the same run, per node; 1.0 means linear.
"""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from pinion.plan import plan
from pinion.site.model import Site

SIZES = (500, 1_000, 2_500, 5_000)


def main() -> None:
    """Plan sites of growing size and print seconds, and microseconds a node relative to the smallest size."""
    stated = yaml.safe_load((Path(__file__).parents[2] / "inventories/lab/site.yml").read_text())
    stated["networks"]["edge-inference"] |= {"prefix": "10.128.0.0/16", "ranges": {"pis": "10.128.1.0-10.128.200.0"}}
    base = None
    for size in SIZES:
        stated["pis"]["pi"] |= {"numbers": f"1-{size}", "ports": f"tor-1 Ethernet100-{size + 99}"}
        site = Site.model_validate(stated)
        started = time.perf_counter()
        compiled = plan(site)
        elapsed = time.perf_counter() - started
        per_node = elapsed / size
        base = base if base is not None else per_node
        print(
            f"{size:>6} nodes  {elapsed:6.3f} s  {per_node / base:4.2f} x a node of the smallest  ({len(compiled.devices)} devices)"
        )


if __name__ == "__main__":
    main()
