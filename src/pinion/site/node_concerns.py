"""The settings of the concerns that only Raspberry Pis or only GPU servers have, as the site file states them under `concerns:`.

A setting that no public document gives a value for is unstated by default, and the kernel's or the maker's own value then stays.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pinion.site.statement import Duration, Percentage, Statement, says


class PiTuning(Statement):
    """Network backlog and interrupt spreading, CPU governor, swap in compressed memory, less wear on SD cards."""

    governor: Literal["performance", "schedutil", "ondemand"] = says(
        "CPU frequency governor. `performance` spares an answer the climb from the lowest frequency.",
        default="performance",
    )
    zram: Percentage | None = says(
        "Swap in compressed memory, as a share of the memory; `0%` for none. Unstated: 50% (zram-generator's default), and none on "
        "Pis that are nodes of the cluster, because a kubelet refuses to start beside swap. Swap on the SD card is always off.",
        default=None,
    )
    journal: Literal["volatile", "persistent"] = says(
        "Where the journal lives. `volatile`: in memory, so that logs do not wear the card and are gone after a reboot.",
        default="volatile",
    )


class GpuTuning(Statement):
    """Kernel parameters for long fat streams between GPU servers. There is nothing to state."""
